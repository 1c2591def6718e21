"""Everything freepull raises on purpose. Each message is one sentence: what was wrong, what is allowed, what to do."""

from __future__ import annotations


class FreepullError(Exception):
    """The parent of every exception that freepull raises on purpose."""


class InvalidInput(FreepullError, ValueError):
    """A parameter has a value that it must not have."""


class UnknownName(InvalidInput):
    """A name is not among the known ones."""


class AgentError(FreepullError):
    """A user's own agent broke its contract, for example by picking an arm that does not exist."""


class ResultError(FreepullError):
    """A result file cannot be read or written."""


class StudyError(FreepullError):
    """A study file, or the folder of its results, cannot be used as it is."""


class ReadableEngine(UserWarning):
    """Says that the slower, readable engine is used, and why."""


class UnusableRows(UserWarning):
    """Says which rows of a log were left out, and why."""
