"""Conformance kits that users run on their own parts."""
