"""`fp.AgentClient` and `fp.AsyncAgentClient`: an agent of a campaign, who asks, acts and tells."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from freepull.client import talks
from freepull.client.transport import RETRIES, SECONDS, AsyncConnected, Call, Connected, Talk, Talking, send
from freepull.errors import InvalidInput
from freepull.messages import CampaignOffer, Me, Told


class Strategy(Protocol):
    """How an agent picks: one of `freepull.agents`, or your own."""

    def pick(self, t: int) -> int:
        """Return the arm for the agent's ``t``-th pull, counted from 1."""

    def learn(self, arm: int, reward: float) -> None:
        """Take note of a reward."""


class _Mind:
    """What an agent chooses with: it takes an offer, or picks by its strategy, and learns from either."""

    def __init__(self, strategy: Strategy | None) -> None:
        self._given = strategy
        self._strategy: Strategy | None = None
        self._arms: list[str] = []
        self._t = 0

    @property
    def ready(self) -> bool:
        """Whether it knows the arms."""
        return bool(self._arms)

    def begin(self, arms: list[str]) -> None:
        """Take note of the arms."""
        if self._given is None:
            raise InvalidInput("strategy must be given to act, for example freepull.agents.AlphaUCB().")
        self._arms, self._strategy = arms, copy.deepcopy(self._given)
        start = getattr(self._strategy, "start", None)
        if start is not None:
            start(len(self._arms), secrets.randbits(64))

    def choose(self, offer: CampaignOffer | None) -> str:
        """Return the arm to pull: the offer's, or the strategy's own."""
        self._t += 1
        assert self._strategy is not None
        return offer.arm if offer is not None else self._arms[self._strategy.pick(self._t)]

    def learn(self, arm: str, reward: float) -> None:
        """Take note of a reward."""
        assert self._strategy is not None
        self._strategy.learn(self._arms.index(arm), reward)


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

    def _me(self) -> Talk[Me]:
        return send(Call("GET", talks.within(self.campaign, "me"), Me))

    def _choose(self) -> Talk[str]:
        """Ask, and return the arm to pull."""
        if not self._mind.ready:
            self._mind.begin((yield from self._me()).arms)
        return self._mind.choose((yield from talks.my_offer(self.campaign)))

    def _learn(self, arm: str, reward: float) -> Talk[Told]:
        """Learn from a pull, and tell it."""
        self._mind.learn(arm, reward)
        return talks.my_pull(self.campaign, arm, reward, None)


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
        self,
        url: str,
        campaign: str,
        token: str,
        *,
        strategy: Strategy | None = None,
        retries: int = RETRIES,
        seconds: float = SECONDS,
        owners: Iterable[str] = (),
    ) -> None:
        super().__init__(url, token, retries, seconds, owners)
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
        retries: int = RETRIES,
        seconds: float = SECONDS,
        owners: Iterable[str] = (),
        http: Any = None,
    ) -> None:
        super().__init__(url, token, retries, seconds, owners, http)
        self.campaign, self._mind = campaign, _Mind(strategy)

    async def act(self, pull: Callable[[str], float] | Callable[[str], Awaitable[float]]) -> Told:
        """See `AgentClient.act`; the pull may be awaited."""
        arm = await self.connection.talk(self._choose())
        found = pull(arm)
        reward = await found if isinstance(found, Awaitable) else found
        return await self.connection.talk(self._learn(arm, reward))
