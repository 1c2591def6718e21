"""`fp.AgentClient`: one agent of a campaign: ask, act, tell; an own strategy may choose."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Self

from freepull.agents import Agent
from freepull.errors import InvalidInput
from freepull.live import Offer, Told
from freepull.service import calls, sending
from freepull.service.async_client import AsyncClient
from freepull.service.client import Client


class Mind:
    """What an agent chooses with: it takes an offer, or picks by its strategy, and learns from either."""

    def __init__(self, strategy: Agent | None) -> None:
        self._given = strategy
        self._strategy: Agent | None = None
        self._arms: list[str] = []
        self._t = 0

    @property
    def ready(self) -> bool:
        """Whether it knows the arms."""
        return bool(self._arms)

    def begin(self, me: dict[str, Any]) -> None:
        """Take note of the arms."""
        if self._given is None:
            raise InvalidInput("strategy must be given to act, for example freepull.agents.AlphaUCB().")
        self._arms, self._strategy = me["arms"], copy.deepcopy(self._given)
        start = getattr(self._strategy, "start", None)
        if start is not None:
            start(len(self._arms), secrets.randbits(64))

    def choose(self, offer: Offer | None) -> str:
        """Return the arm to pull: the offer's, or the strategy's own."""
        self._t += 1
        assert self._strategy is not None
        return offer.arm if offer is not None else self._arms[self._strategy.pick(self._t)]

    def learn(self, arm: str, reward: float) -> None:
        """Take note of a reward."""
        assert self._strategy is not None
        self._strategy.learn(self._arms.index(arm), reward)


class AgentClient:
    """One agent. Telling is repeated with the same event id until it is answered, so it counts once.

    Parameters
    ----------
    url, campaign
        The service, and the campaign's name.
    token
        The agent's own token.
    strategy
        How the agent picks if there is no offer, for `act`: one of `freepull.agents`, or your own.
    """

    def __init__(self, url: str, campaign: str, token: str, *, strategy: Agent | None = None, retries: int = 8) -> None:
        self.campaign = campaign
        self._client = Client(url, token, retries=retries)
        self._mind = Mind(strategy)

    def me(self) -> dict[str, Any]:
        """Return what the agent may know: status, arms, its own pulls, its open offer."""
        return self._client.send(calls.me(self.campaign))

    def ask(self) -> Offer | None:
        """Return the offer, if there is one."""
        return self._client.send(calls.my_offer(self.campaign))["offer"]

    def tell(self, arm: str, reward: float, event: str | int | None = None) -> Told:
        """Tell a pull; without an event it gets an id of its own."""
        call = calls.my_pull(self.campaign, arm, reward, sending.event_id(event))
        return calls.told(self._client.send(call))

    def act(self, pull: Callable[[str], float]) -> Told:
        """Ask, take the offer or pick by the strategy, pull, and tell."""
        if not self._mind.ready:
            self._mind.begin(self.me())
        arm = self._mind.choose(self.ask())
        reward = pull(arm)
        self._mind.learn(arm, reward)
        return self.tell(arm, reward)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncAgentClient:
    """An `AgentClient` whose methods are awaited; many may share one `AsyncClient`'s connections."""

    def __init__(
        self, url: str, campaign: str, token: str, *, strategy: Agent | None = None, retries: int = 8, http: Any = None
    ) -> None:
        self.campaign = campaign
        self._client = AsyncClient(url, token, retries=retries, http=http)
        self._mind = Mind(strategy)

    async def me(self) -> dict[str, Any]:
        """See `AgentClient.me`."""
        return await self._client.send(calls.me(self.campaign))

    async def ask(self) -> Offer | None:
        """See `AgentClient.ask`."""
        return (await self._client.send(calls.my_offer(self.campaign)))["offer"]

    async def tell(self, arm: str, reward: float, event: str | int | None = None) -> Told:
        """See `AgentClient.tell`."""
        call = calls.my_pull(self.campaign, arm, reward, sending.event_id(event))
        return calls.told(await self._client.send(call))

    async def act(self, pull: Callable[[str], float] | Callable[[str], Awaitable[float]]) -> Told:
        """See `AgentClient.act`; the pull may be awaited."""
        if not self._mind.ready:
            self._mind.begin(await self.me())
        arm = self._mind.choose(await self.ask())
        found = pull(arm)
        reward = await found if isinstance(found, Awaitable) else found
        self._mind.learn(arm, reward)
        return await self.tell(arm, reward)

    async def close(self) -> None:
        """See `AgentClient.close`."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
