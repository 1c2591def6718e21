"""The rule for people as they are, and the book that it keeps."""

from freepull.principal.rules.comparisons.rule import Comparisons

__all__ = ["Comparisons"]
