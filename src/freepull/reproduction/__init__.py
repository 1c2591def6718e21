"""The paper reproduced: every experiment in three labelled settings, and a report that tells the truth about them."""

from freepull.reproduction.reproduce import FIGURES, Reproduction, reproduce
from freepull.reproduction.section import SETTINGS, Finding, Interrupted, Request, Section

__all__ = [
    "FIGURES", "SETTINGS", "Finding", "Interrupted", "Reproduction", "Request", "Section", "reproduce"
]  # fmt: skip
