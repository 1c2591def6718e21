"""Where campaigns are kept: SQLite, PostgreSQL, or a store of your own."""

from freepull.live.stores.base import Lease, Store, connect

__all__ = ["Lease", "Store", "connect"]
