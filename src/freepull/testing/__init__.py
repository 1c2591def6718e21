"""Conformance kits that users run on their own parts."""

from freepull.testing.stores import STORE_CHECKS, check_store

__all__ = ["STORE_CHECKS", "check_store"]
