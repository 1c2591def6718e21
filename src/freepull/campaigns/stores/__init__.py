"""Where campaigns are kept: SQLite, PostgreSQL, or a store of your own."""

from freepull.campaigns.stores.base import Lease, Store, Where, connect
from freepull.campaigns.stores.serving import ServedStore

__all__ = ["Lease", "ServedStore", "Store", "Where", "connect"]
