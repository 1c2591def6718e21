"""Whether nothing is compiled: a command that does not simulate need not load the compiler, half a second of work."""

from __future__ import annotations

ON = False
"""To be set before anything else of freepull is imported, as `freepull plan --quick` does."""
