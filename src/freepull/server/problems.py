"""What goes wrong, as HTTP says it: `application/problem+json` with a sentence and a remedy."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import msgspec

from freepull import errors
from freepull.errors import FreepullError

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True):
    """One error, as RFC 9457 has it."""

    title: str
    """What kind of error this is, in short."""
    status: int
    """The status of the answer."""
    detail: str
    """What was wrong, in a sentence."""
    remedy: str
    """What to do."""
    type: str
    """Where this kind of error is explained: the name of an exception of the SDK, or the status."""
    expected: int | None = None
    """The number that an agent's next event must have."""
    owner: str | None = None
    """The address of the process that has the campaign."""
    lease_left: float | None = None
    """Seconds after which another process may take the campaign, if its owner is silent until then."""


class Refused(FreepullError):
    """A request that HTTP itself, or a token, does not allow."""

    def __init__(
        self, status: int, detail: str, remedy: str, headers: dict[str, str] | None = None, kind: str = ""
    ) -> None:
        super().__init__(detail)
        self.status, self.remedy, self.headers, self.kind = status, remedy, headers or {}, kind


TITLES = {
    400: "Cannot be read",
    401: "No valid token",
    403: "Not with this token",
    404: "Not found",
    405: "Not this method",
    408: "Too slow",
    409: "Not now",
    413: "Too large",
    414: "Too long an address",
    415: "Not this kind of body",
    421: "Another process has it",
    422: "Not allowed",
    429: "Too many requests",
    431: "Too large a head",
    500: "Our fault",
    503: "Not available now",
}
_KINDS: tuple[tuple[type[FreepullError], int, str], ...] = (
    (errors.UnknownCampaign, 404, "Look at GET /v1/campaigns for the names."),
    (errors.UnknownAgent, 422, "Look at GET /v1/campaigns/{campaign}/agents for the agents."),
    (errors.UnknownArm, 422, "Look at GET /v1/campaigns/{campaign}/arms for the arms."),
    (errors.UnknownAct, 404, "Tell the act first, by the same event."),
    (errors.CampaignExists, 409, "Choose another name."),
    (errors.EventConflict, 422, "Take a new event id for a new event."),
    (errors.EventGap, 409, "Send the expected number first."),
    (errors.BudgetTooSmall, 409, "Give a larger budget."),
    (errors.WrongMoment, 409, "Look at GET /v1/campaigns/{campaign} for the status."),
    (errors.Overloaded, 503, "Try again after the time in Retry-After, with the same event id."),
    (errors.CampaignBusy, 421, "Ask the owner, or try again in some seconds."),
    (errors.NewerVersion, 500, "Install a newer freepull on the server."),
    (errors.Corrupt, 500, "Restore the campaign from a backup."),
    (errors.OwnPartError, 500, "Install or mend that part on the server."),
    (errors.MissingExtra, 500, "Install freepull[live] on the server."),
    (errors.StoreError, 503, "Try again after the time in Retry-After, with the same event id."),
    (errors.InvalidReward, 422, "Send a reward from 0 to 1, or on the campaign's scale."),
    (FreepullError, 422, ""),
)
_OUTSIDE: tuple[tuple[type[FreepullError], str], ...] = (
    (errors.UnknownCampaign, "there is no campaign of this name."),
    (errors.CampaignExists, "there is a campaign of this name already."),
    (errors.CampaignBusy, "another process has the campaign."),
    (errors.Overloaded, "too many requests are waiting."),
    (errors.NewerVersion, "the campaign was written by a newer freepull."),
    (errors.OwnPartError, "a part of its maker's own, by which the campaign has its prices, fails."),
    (errors.Corrupt, "the campaign is damaged, and was not opened."),
    (errors.StoreError, "the store failed."),
)
"""What is said of these to the outside: their own sentences name files and databases, and belong into the log."""


def problem(error: FreepullError) -> Problem:
    """Return an error as HTTP says it."""
    if isinstance(error, Refused):
        return make(error.status, str(error), error.remedy, error.kind)
    status, remedy = next((status, remedy) for kind, status, remedy in _KINDS if isinstance(error, kind))
    detail = next((words for kind, words in _OUTSIDE if isinstance(error, kind)), str(error))
    found = make(status, detail, remedy or _changed(detail), type(error).__name__)
    if isinstance(error, errors.EventGap):
        found.expected = error.expected
    if isinstance(error, errors.CampaignBusy):
        found.owner = error.owner.partition(" ")[0] or None
        found.lease_left = error.left
    return found


def _changed(detail: str) -> str:
    """Return what to do about a value that must not be: sentences begin with its name."""
    name, must, _ = detail.partition(" must ")
    return f"Change {name}, and send the request again." if must else "Send a request that this sentence allows."


def make(status: int, detail: str, remedy: str, kind: str = "") -> Problem:
    """Return a problem."""
    return Problem(TITLES.get(status, "Refused"), status, detail, remedy, f"/problems/{kind or status}")


def explained(kind: str) -> str | None:
    """Say what a kind of problem is, None if there is none of this name."""
    if kind.isascii() and kind.isdigit():
        return TITLES.get(int(kind[:3]))
    found = getattr(errors, kind, None)
    return inspect.getdoc(found) if isinstance(found, type) and issubclass(found, FreepullError) else None


def headers(found: Problem, error: Exception) -> dict[str, str]:
    """Return the headers that belong to a problem."""
    more = dict[str, str](error.headers) if isinstance(error, Refused) else {}
    if found.status in (429, 503):
        more.setdefault("retry-after", "1")
    if found.status == 401:
        more["www-authenticate"] = "Bearer"
    return more


def traced(error: BaseException) -> dict[str, Any]:
    """Return what the log says of an error that nobody expected: its name, its words, and where it was raised."""
    where = [f"{it.filename.rpartition('/')[2]}:{it.lineno}" for it in traceback.extract_tb(error.__traceback__)]
    return {"error": f"{type(error).__name__}: {error}"[:500], "where": where[-8:]}


def encode(found: Problem) -> bytes:
    """Return a problem as JSON."""
    return msgspec.json.encode(found)


def described(*statuses: int) -> dict[int, Any]:
    """Return the OpenAPI responses for some statuses."""
    from litestar.openapi.datastructures import ResponseSpec

    return {
        status: ResponseSpec(Problem, generate_examples=False, description=TITLES[status], media_type=MEDIA_TYPE)
        for status in statuses
    }
