"""Everything freepull raises on purpose. Each message is one sentence: what was wrong, what is allowed, what to do."""

from __future__ import annotations


class FreepullError(Exception):
    """The parent of every exception that freepull raises on purpose."""

    place: int | None = None
    """Which one of many pulls it is about, where many were told at once."""


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


class MissingExtra(FreepullError, ImportError):
    """A part of freepull needs a package that is not installed."""


class CampaignError(FreepullError):
    """The parent of what goes wrong with live campaigns."""


class UnknownCampaign(CampaignError, UnknownName):
    """There is no campaign of that name."""


class CampaignExists(CampaignError):
    """There is a campaign of that name already."""


class UnknownAgent(CampaignError, UnknownName):
    """A campaign has no agent of that name."""


class UnknownArm(CampaignError, UnknownName):
    """A campaign has no arm of that name."""


class UnknownAct(CampaignError, UnknownName):
    """An agent has told no act by that event."""


class InvalidReward(CampaignError, InvalidInput):
    """A reward is not a number in [0, 1]."""


class WrongMoment(CampaignError):
    """What was asked for does not fit the campaign's status, for example a tell after stop."""


class OutOfTurn(WrongMoment):
    """An agent acted twice in one round."""


class AgentHasLeft(WrongMoment):
    """An agent has left for good, so its pulls no longer count."""


class EventConflict(CampaignError):
    """An event id or number was used before, for something else."""


class EventGap(CampaignError):
    """An agent's events were numbered, and this is not the next number."""

    def __init__(self, message: str, expected: int) -> None:
        super().__init__(message)
        self.expected = expected


class BudgetTooSmall(CampaignError):
    """A budget is below what is spent or reserved already."""


class Overloaded(CampaignError):
    """More is asked for than can be queued; nothing was done, try again later."""


class StoreError(CampaignError):
    """The store failed."""


class CampaignBusy(StoreError):
    """Another process has the campaign or its file open."""

    def __init__(self, message: str, owner: str = "", left: float | None = None) -> None:
        super().__init__(message)
        self.owner = owner
        self.left = left
        """Seconds for which it has it if it is silent from now on; None: not known."""


class Fenced(StoreError):
    """Another process has taken the campaign over; this one answers nothing any more."""


class WriterEnded(StoreError):
    """The campaign was closed, because it could not go on; what counts is known when its log is read again."""


class NewerVersion(StoreError):
    """A file or a campaign was written by a newer freepull."""


class Corrupt(StoreError):
    """What is stored is damaged, or is not what the log says."""


class ReplayDiffers(Corrupt):
    """Replaying the log did not give what it says was decided."""


class OwnPartError(CampaignError, InvalidInput):
    """A pricing of one's own cannot be imported, cannot be made again, or broke its contract."""


class ServiceError(FreepullError):
    """The service refused a request, or could not be reached."""

    def __init__(self, message: str, status: int = 0, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".rstrip())
        self.status, self.remedy = status, remedy


class UnusableRows(UserWarning):
    """Says which rows of a log were left out, and why."""
