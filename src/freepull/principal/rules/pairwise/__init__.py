"""The pairwise rule: blocks, and an e-process for every pair of arms (docs/certified.md, pairwise)."""

from freepull.principal.rules.pairwise.evidence import Blocks
from freepull.principal.rules.pairwise.rule import Pairwise

__all__ = ["Blocks", "Pairwise"]
