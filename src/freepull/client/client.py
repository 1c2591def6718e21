"""`fp.Client` and `fp.AsyncClient`, a running service and its campaigns, for admins and gateways; and `fp.AgentClient`.

An agent of a campaign asks, acts and tells.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack

from freepull import registry
from freepull.client import talks
from freepull.client.reach import odd, unreachable
from freepull.client.transport import (
    MOST_FILE,
    AsyncConnected,
    AsyncConnection,
    Attempt,
    Call,
    Connected,
    Connection,
    Reach,
    Talk,
    Talking,
    answer_of,
    httpx,
    place,
    send,
)
from freepull.commands import AsyncCampaignVerbs, CampaignVerbs, Command
from freepull.errors import FreepullError, InvalidInput, InvalidReward
from freepull.messages import AgentRow, CampaignOffer, CampaignRow, MadeToken, Me, TokenEntry, TokenRow, Told
from freepull.money import Money

Reply = TypeVar("Reply")


class _Campaign:
    """What a service knows of a campaign beyond its verbs: its agents, and their tokens."""

    name: str

    @Talking
    def agent(self, agent: str | int) -> Talk[Me]:
        """Return what an agent may know: status, arms, its own pulls, its open offer."""
        return talks.one_agent(self.name, agent)

    @Talking
    def agents(self, after: int = -1) -> Talk[list[AgentRow]]:
        """Return agents as they stand, after a given number."""
        return talks.agents(self.name, after)

    @Talking
    def agent_tokens(self, agents: Sequence[str | int], lasts: str = "30 days") -> Talk[dict[str, str]]:
        """Make tokens for agents; return them by name."""
        return talks.agent_tokens(self.name, agents, lasts)

    @Talking
    def revoke_agent(self, agent: str | int) -> Talk[None]:
        """End all tokens of an agent."""
        return send(Call("POST", talks.within(self.name, "agents", talks.named(agent), "revoke"), None))


class RemoteCampaign(_Campaign, CampaignVerbs):
    """A campaign of a running service, with the verbs of `fp.Campaign`; who does something is known by the token."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection, self.name = connection, name

    def do(self, command: Command[Reply]) -> Reply:
        """Do what a command says."""
        return self.connection.talk(talks.talk(self.name, command))


class AsyncRemoteCampaign(_Campaign, AsyncCampaignVerbs):
    """A `RemoteCampaign` whose methods are awaited."""

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self.connection, self.name = connection, name

    async def do(self, command: Command[Reply]) -> Reply:
        """Do what a command says."""
        return await self.connection.talk(talks.talk(self.name, command))


class _Service:
    """What a service can be asked beside its campaigns."""

    @Talking
    def campaigns(self) -> Talk[list[CampaignRow]]:
        """List the campaigns."""
        return send(Call("GET", place("campaigns"), list[CampaignRow]))

    @Talking
    def new_token(
        self, scope: str, *, campaign: str = "", label: str = "", lasts: str | None = None
    ) -> Talk[MadeToken]:
        """Make a token; it is shown here and never again."""
        body = {"scope": scope, "campaign": campaign, "label": label, "lasts": lasts}
        return send(Call("POST", place("tokens"), MadeToken, body))

    @Talking
    def tokens(self) -> Talk[list[TokenRow]]:
        """List tokens, without their secrets."""
        return send(Call("GET", place("tokens"), list[TokenRow]))

    @Talking
    def token_audit(self, after: int = 0) -> Talk[list[TokenEntry]]:
        """Return who has made and revoked which tokens, after a given entry."""
        return talks.token_audit(after)

    @Talking
    def revoke_token(self, id: str) -> Talk[None]:
        """End a token."""
        return send(Call("DELETE", place("tokens", id), None))


class Client(_Service, Connected):
    """Sends requests with a token, again after failures; what is sent again counts once.

    Parameters
    ----------
    url
        Where the service is, such as ``http://127.0.0.1:8000``.
    token
        What ``freepull token new`` has shown.
    retries
        How often a request is sent again.
    seconds
        How long to wait for each reply, before the same is sent again, to another process if there is one. What takes
        long by its nature may take 30 times as long: making a campaign, enrolling, snapshots, imports; files 300 times.
    owners
        The addresses of all processes, where several share a database; the token is sent to ``url`` and these only.
    """

    def __init__(self, url: str, token: str, **reach: Unpack[Reach]) -> None:
        super().__init__(url, token, reach)

    def campaign(self, name: str) -> RemoteCampaign:
        """Return a campaign of the service; nothing is sent yet."""
        return RemoteCampaign(self.connection, name)

    def create(self, *, name: str, **settings: Any) -> RemoteCampaign:
        """Make a campaign; the settings are those of `freepull.Campaign.create`."""
        self.connection.send(talks.create({"name": name} | settings))
        return self.campaign(name)

    def backup(self, path: str | Path) -> None:
        """Write a copy of the service's SQLite file, taken while its campaigns go on, to a new file."""
        target, connection = Path(path), self.connection
        if target.exists():
            raise InvalidInput(f"path must be a file that does not exist yet, got {str(path)!r}.")
        part = target.with_name(f"{target.name}.part")
        call = Call[bytes]("GET", place("exports", "backup.db"), bytes)
        attempt = Attempt(call, connection.addresses, connection.token)
        pieces = connection.pieces(attempt, connection.seconds * call.patience, MOST_FILE)
        try:
            with closing(pieces), part.open("wb") as file:
                found = next(pieces)
                if found.status_code != 200:
                    attempt.answered(answer_of(found, list(islice(pieces, 10))))
                call.read(answer_of(found, []))
                for piece in pieces:
                    file.write(piece)
            with part.open("rb") as file:
                if file.read(16) != b"SQLite format 3\0":
                    raise odd("it is no SQLite file")
            part.rename(target)
        except httpx().TransportError as error:
            raise unreachable(connection.url, error) from None
        finally:
            part.unlink(missing_ok=True)


class AsyncClient(_Service, AsyncConnected):
    """A `Client` whose methods are awaited; several may share one ``http=httpx.AsyncClient()``."""

    def __init__(self, url: str, token: str, *, http: Any = None, **reach: Unpack[Reach]) -> None:
        super().__init__(url, token, reach, http)

    def campaign(self, name: str) -> AsyncRemoteCampaign:
        """Return a campaign of the service; nothing is sent yet."""
        return AsyncRemoteCampaign(self.connection, name)

    async def create(self, *, name: str, **settings: Any) -> AsyncRemoteCampaign:
        """Make a campaign; the settings are those of `freepull.Campaign.create`."""
        await self.connection.send(talks.create({"name": name} | settings))
        return self.campaign(name)

    async def backup(self, path: str | Path) -> None:
        """See `Client.backup`."""
        it = self.connection
        with Client(it.url, it.token, seconds=it.seconds) as client:
            await asyncio.to_thread(client.backup, path)


class Strategy(Protocol):
    """How an agent picks: one of `freepull.agents`, or your own."""

    def pick(self, t: int) -> int:
        """Return the arm for the agent's ``t``-th pull, counted from 1."""

    def learn(self, arm: int, reward: float) -> None:
        """Take note of a reward; with an argument ``paid`` also of the bonus, in units of its currency, 0 if none."""


class _Mind:
    """What an agent chooses with: it takes an offer, or picks by its strategy, and learns from either."""

    def __init__(self, strategy: Strategy | None) -> None:
        self._given = strategy
        self._strategy: Strategy | None = None
        self._arms: list[str] = []
        self._range = 0.0, 1.0
        self._t = 0

    @property
    def ready(self) -> bool:
        """Whether it knows the arms."""
        return bool(self._arms)

    def begin(self, me: Me) -> None:
        """Take note of the arms, and of the scale."""
        if self._given is None:
            raise InvalidInput("strategy must be given to act, for example freepull.agents.AlphaUCB().")
        self._arms, self._range, self._strategy = me.arms, me.range, copy.deepcopy(self._given)
        start = getattr(self._strategy, "start", None)
        if start is not None:
            start(len(self._arms), secrets.randbits(64))

    def choose(self, offer: CampaignOffer | None) -> str:
        """Return the arm to pull: the offer's, or the strategy's own."""
        self._t += 1
        assert self._strategy is not None
        return offer.arm if offer is not None else self._arms[self._strategy.pick(self._t)]

    def learn(self, arm: str, reward: float, paid: Money | None) -> None:
        """Take note of a reward, which strategies have in [0, 1], and of the bonus, if the strategy asks for it."""
        assert self._strategy is not None
        low, high = self._range
        bonus = {"paid": 0.0 if paid is None else paid.units} if registry.hears_of_bonuses(self._strategy) else {}
        self._strategy.learn(self._arms.index(arm), min(max((reward - low) / (high - low), 0.0), 1.0), **bonus)


class _Agent:
    """What an agent can say."""

    campaign: str
    _mind: _Mind

    @Talking
    def me(self) -> Talk[Me]:
        """Return what the agent may know: status, arms, its own pulls, its open offer."""
        return self._me()

    @Talking
    def ask(self) -> Talk[CampaignOffer | None]:
        """Return the offer, if there is one."""
        return talks.my_offer(self.campaign)

    @Talking
    def tell(self, arm: str, reward: float, event: str | int | None = None) -> Talk[Told]:
        """Tell a pull; without an event it gets an id of its own."""
        return talks.my_pull(self.campaign, arm, reward, event)

    @Talking
    def accept(self, offer: int | None = None) -> Talk[CampaignOffer]:
        """Say that the agent will act on its offer, the given one or whichever is open; it stands longer then."""
        return talks.my_answer(self.campaign, offer)

    @Talking
    def decline(self, offer: int | None = None) -> Talk[None]:
        """Say that the agent does not want its offer."""
        return talks.my_refusal(self.campaign, offer)

    @Talking
    def acted(self, arm: str, event: str | int) -> Talk[Told]:
        """Say that the agent has made a pull, whose outcome is told later by the same event."""
        return talks.my_act(self.campaign, arm, event)

    @Talking
    def outcome(self, event: str | int, reward: float) -> Talk[Told]:
        """Tell what came of an act, by its event."""
        return talks.my_outcome(self.campaign, event, reward)

    @Talking
    def pass_over(self, event: str | int | None = None) -> Talk[None]:
        """Say that the agent has asked and made no pull; without an event it gets an id of its own."""
        return talks.no_pull(self.campaign, event)

    def _me(self) -> Talk[Me]:
        return send(Call("GET", talks.within(self.campaign, "me"), Me))

    def _choose(self) -> Talk[str]:
        """Ask, and return the arm to pull."""
        if not self._mind.ready:
            self._mind.begin((yield from self._me()))
        return self._mind.choose((yield from talks.my_offer(self.campaign)))

    def _learn(self, arm: str, reward: float) -> Talk[Told]:
        """Tell a pull, and learn from it, also where telling fails, but for a reward that is none."""
        try:
            told = yield from talks.my_pull(self.campaign, arm, reward, None)
        except InvalidReward:
            raise
        except FreepullError:
            self._mind.learn(arm, reward, None)
            raise
        self._mind.learn(arm, reward, told.paid)
        return told


class AgentClient(_Agent, Connected):
    """One agent. Telling is repeated with the same event id until it is answered, so it counts once.

    Parameters
    ----------
    url, campaign
        The service, and the campaign's name.
    token
        The agent's own token.
    strategy
        How the agent picks if there is no offer, for `act`: one of `freepull.agents`, or your own.
    retries
        How often a request is sent again.
    seconds
        How long to wait for each reply, before the same is sent again, to another process if there is one.
    owners
        The addresses of all processes, where several share a database; the token is sent to ``url`` and these only.
    """

    def __init__(
        self, url: str, campaign: str, token: str, *, strategy: Strategy | None = None, **reach: Unpack[Reach]
    ) -> None:
        super().__init__(url, token, reach)
        self.campaign, self._mind = campaign, _Mind(strategy)

    def act(self, pull: Callable[[str], float]) -> Told:
        """Ask, take the offer or pick by the strategy, pull, and tell."""
        arm = self.connection.talk(self._choose())
        return self.connection.talk(self._learn(arm, pull(arm)))


class AsyncAgentClient(_Agent, AsyncConnected):
    """An `AgentClient` whose methods are awaited; many may share one ``http=httpx.AsyncClient()``."""

    def __init__(
        self,
        url: str,
        campaign: str,
        token: str,
        *,
        strategy: Strategy | None = None,
        http: Any = None,
        **reach: Unpack[Reach],
    ) -> None:
        super().__init__(url, token, reach, http)
        self.campaign, self._mind = campaign, _Mind(strategy)

    async def act(self, pull: Callable[[str], float] | Callable[[str], Awaitable[float]]) -> Told:
        """See `AgentClient.act`; the pull may be awaited."""
        arm = await self.connection.talk(self._choose())
        found = pull(arm)
        reward = await found if isinstance(found, Awaitable) else found
        return await self.connection.talk(self._learn(arm, reward))
