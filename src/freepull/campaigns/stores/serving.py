"""What a service needs of a store beside campaigns: who has which, tokens, and replies that are kept for repetitions.

A store of your own can be served if it has these methods too; `freepull.testing.check_store` tries those that it has.
As for campaigns, what a method has written survives a crash once it returns, and any thread may call it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from freepull.errors import UnknownCampaign


class Holder(NamedTuple):
    """Who has a campaign."""

    campaign: str
    owner: str
    """As `Store.claim` was told; empty: nobody."""
    held: bool
    """Whether nobody else can claim it now; never, where the store as a whole is locked instead."""


class StoredToken(NamedTuple):
    """A token as it is kept: its secret is known to nobody. Times are microseconds since 1970."""

    id: str
    hash: bytes
    scope: str
    campaign: str
    label: str
    made: int
    expires: int | None = None
    revoked: int | None = None


class TokenNote(NamedTuple):
    """What somebody did with tokens, for their audit; notes are only added."""

    at: int
    """In microseconds since 1970."""
    who: str
    """Who did it; empty: whoever has the store."""
    action: str
    """made or revoked."""
    token: str
    """The id of the token; empty for those of agents, which have none."""
    scope: str
    campaign: str
    label: str
    agents: str = ""
    """The numbers of the agents whose tokens these are."""


class StoredReply(NamedTuple):
    """What a request was answered with."""

    request: bytes
    """A hash of it."""
    status: int
    body: bytes


@runtime_checkable
class LeaseStore(Protocol):
    """Tells who has which campaign."""

    def holders(self, campaign: str | None = None) -> list[Holder]:
        """Return who has every campaign, in the order of names; or one alone, nothing if it is not there."""
        ...


@runtime_checkable
class TokenStore(Protocol):
    """Keeps tokens, and the key that signs those of agents."""

    def secret(self, name: str, new: bytes) -> bytes:
        """Return a secret; ``new`` is kept if there is none of this name, and then everybody gets that one."""
        ...

    def tokens(self) -> list[StoredToken]:
        """Return all tokens."""
        ...

    def add_token(self, token: StoredToken, note: TokenNote) -> None:
        """Keep a new token and a note of it, both or none."""
        ...

    def revoke_token(self, id: str, note: TokenNote) -> None:
        """Revoke a token at the time of the note, and keep that; the first time counts, and alone is noted."""
        ...

    def versions(self) -> dict[tuple[str, int], int]:
        """Return the version of agents' tokens, by campaign and agent, where it is not 0."""
        ...

    def raise_version(self, campaign: str, agent: int, note: TokenNote) -> None:
        """Raise the version of an agent's tokens by 1, which ends those of older versions, and keep a note of it."""
        ...

    def add_note(self, note: TokenNote) -> None:
        """Keep a note of tokens that are not stored themselves."""
        ...

    def token_notes(self, after: int, limit: int) -> list[tuple[int, TokenNote]]:
        """Return notes in the order in which they were added, numbered from 1 on, after a number."""
        ...


@runtime_checkable
class ReplyStore(Protocol):
    """Keeps replies for a while, so that a repeated request is answered the same."""

    def find_reply(self, id: bytes, since: int) -> StoredReply | None:
        """Return the reply that was kept under an id, not before a time."""
        ...

    def keep_reply(self, id: bytes, reply: StoredReply, at: int, since: int) -> None:
        """Keep a reply, unless there is one under its id, and forget those from before a time."""
        ...


@runtime_checkable
class ServedStore(LeaseStore, TokenStore, ReplyStore, Protocol):
    """A store that a service can run on."""

    url: str
    reopens: bool

    def unknown(self, name: str) -> UnknownCampaign:
        """See `Store.unknown`."""
        ...

    def backup(self, path: str | Path) -> None:
        """See `Store.backup`."""
        ...

    def close(self) -> None:
        """See `Store.close`."""
        ...
