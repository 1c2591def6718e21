"""When campaigns will be decided, and for how much: forecast in a process of its own now and then, by no request."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from freepull.campaigns.core import Core
from freepull.campaigns.journal.events import PULLS, Kind
from freepull.campaigns.journal.recovery import segments
from freepull.campaigns.journal.writer import awaited
from freepull.campaigns.settings import shown
from freepull.errors import FreepullError
from freepull.messages import Outlook
from freepull.money import Money
from freepull.planning.forecast import Onward, Seen, is_known, onward
from freepull.principal.record import UNITS
from freepull.simulation.readable import end_with_parent

if TYPE_CHECKING:
    from freepull.campaigns.commands import Decider
    from freepull.server.hosting import Open

FIRST, EVERY, SOON = 45.0, 600.0, 60.0
"""Seconds before the first look, and between two forecasts of a campaign; and where the last one is out of date."""
GROWN = 1.2
"""Once a log is so many times as long as at its last forecast, that is out of date."""
SECONDS, PATIENCE = 20.0, 180.0
"""For how long it simulates, and how long that is waited for: what is not kept compiled yet takes a while."""
LARGE = 200_000
"""Streams, and SEGMENTED events, beyond which nothing is forecast: it would take the writer's and the disk's time."""
SEGMENTED = 5_000_000
SHARES, CENTURY = (0.05, 0.5, 0.95), 3e15


class Taken(NamedTuple):
    """What is known of a campaign at one moment."""

    principal: Any
    state: bytes
    taken: int
    refused: int
    events: int
    panel: int
    arms: int
    spent: int
    cost: float
    """Of a bonus, in minor units, as up to now."""
    currency: str
    ends: int | None


def take(decider: Decider) -> Taken | None:
    """Copy what a forecast needs, between two events; None if there is nothing to forecast."""
    state = decider.state
    trial, offers, settings = state.started, state.offers, state.settings
    if trial is None or state.status != "running" or state.panel * len(settings.arms) > LARGE:
        return None
    if state.rehearsals or state.events > SEGMENTED or not is_known(trial):
        return None
    ended, paid = offers.endings, offers.endings["paid"]
    return Taken(
        settings.principal,
        trial.state(),
        paid,
        ended["refused"] + ended["expired"],
        state.events,
        state.panel,
        len(settings.arms),
        offers.spent,
        offers.spent / paid if settings.priced and paid else offers.price.minor,
        offers.price.currency,
        settings.ends,
    )


def read(core: Core, known: Taken, now: int) -> tuple[Seen, float]:
    """Read in the log what a state does not say; return what was seen, and how many microseconds are between pulls."""
    squares, times, coins = np.zeros((known.panel, known.arms)), list[Any](), True
    for segment in segments(core.store, core.name):
        if segment.first >= known.events:
            break
        records = segment.records[: known.events - segment.first]
        records = records[records["agent"] < known.panel]
        told = records[np.isin(records["kind"], (Kind.TOLD, Kind.CAME))]
        coins = coins and bool(np.isin(told["value"], (0, UNITS)).all())
        np.add.at(squares, (told["agent"], told["arm"]), (told["value"] / UNITS) ** 2)
        times.append(records["at"][np.isin(records["kind"], PULLS)])
    pulls = np.concatenate([*times, np.zeros(0, np.int64)])
    half = len(pulls) // 2
    pace = (now - int(pulls[half])) / (len(pulls) - half)
    return Seen(known.principal, known.state, squares, coins, known.taken, known.refused), pace


def outlook_of(found: Onward, known: Taken, pace: float, now: int) -> Outlook:
    """Return a forecast in dates and money; verdicts after the campaign's end are none."""
    step = pace * known.panel
    if known.ends is not None:
        found = Onward(np.where(now + found.decided * step <= known.ends, found.decided, np.inf), found.paid)
    when = [found.steps(p) for p in SHARES]
    costs = [Money(round(known.spent + found.bonuses(p) * known.cost), known.currency) for p in SHARES]
    return Outlook(
        made=shown(now),
        chance=found.chance,
        when=[_date(now, steps * step) for steps in when if steps is not None],
        spend=costs,
        runs=len(found.paid),
    )


def _date(now: int, later: float) -> datetime:
    """Return a point in time, at most a century from now."""
    return shown(now + round(min(later, CENTURY)))


def _simulate(sending: Any, seen: Seen, seconds: float) -> None:
    """Forecast in a process that gives way to all others, and ends with the service however that ends.

    It writes nothing, for the service's output is a log in one form; why it failed is sent as what was found is.
    """
    end_with_parent()
    warnings.simplefilter("ignore")
    with suppress(ValueError, OSError, AttributeError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(15)
    with suppress(OSError):  # where memory is short, it goes before the service does
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        found: Onward | str | None = onward(seen, seconds=seconds)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"[:500]
    sending.send(found)


def beside(seen: Seen, stopped: threading.Event, seconds: float = SECONDS) -> Onward | None:
    """Let another process forecast, and wait for it; None if it finds nothing, takes too long, or is killed."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_simulate, args=(sending, seen, seconds), daemon=True)
    child.start()
    sending.close()
    try:
        for _ in range(round(PATIENCE / 0.5)):
            if stopped.is_set():
                return None
            if receiving.poll(0.5):
                found: Onward | str | None = receiving.recv()
                if isinstance(found, str):
                    raise RuntimeError(found)
                return found
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()
        receiving.close()
    return None


class Made(NamedTuple):
    """When a campaign was forecast, by a clock that does not jump, after how many events, and with which budget."""

    at: float
    events: int
    budget: int | None

    def outdated(self, events: int, budget: int | None, said: Outlook | None) -> bool:
        """Say whether so much has changed that a new forecast should not wait for its turn."""
        over = said is not None and bool(said.when) and said.when[1] < datetime.now(UTC)
        return over or budget != self.budget or events >= GROWN * self.events


class Outlooks:
    """Forecasts the campaigns that are open here, one after the other, and leaves the last forecast with each."""

    def __init__(self, log: Callable[..., None], every: float = EVERY, soon: float = SOON) -> None:
        self._log, self._every, self._soon = log, every, soon
        self._stopped = threading.Event()
        self._made: dict[str, Made] = {}
        """The last forecast of each campaign."""

    def stop(self) -> None:
        """Let go of what is being simulated."""
        self._stopped.set()

    async def follow(self, here: Callable[[], Mapping[str, Open]]) -> None:
        """Forecast as long as the service is there."""
        await asyncio.sleep(min(FIRST, self._every))
        while True:
            await self.look(here().values())
            await asyncio.sleep(min(5.0, self._every))

    async def look(self, found: Iterable[Open]) -> None:
        """Forecast those that are due."""
        for it in list(found):
            try:
                await self._forecast(it)
            except FreepullError:  # its writer may end at this moment
                pass
            except Exception as error:  # whatever it is, looking must go on
                self._log("no forecast", campaign=it.view.name, error=f"{type(error).__name__}: {error}"[:500])

    async def _forecast(self, found: Open) -> None:
        core, view, clock = found.campaign.blocking.core, found.view, asyncio.get_running_loop().time()
        made, budget = self._made.get(view.name), core.budgeted
        if made is not None:
            wait = self._soon if made.outdated(core.events, budget, view.outlook) else self._every
            if clock - made.at < wait or core.events == made.events:
                return
        self._made[view.name] = Made(clock, core.events, budget)
        known, now = await awaited(core.do(lambda decider, at: (take(decider), at)))
        if known is None:
            view.outlook, self._made[view.name] = None, Made(clock, 0, budget)  # a look costs nothing
            return
        seen, pace = await asyncio.to_thread(read, core, known, now)
        onwards = await asyncio.to_thread(beside, seen, self._stopped)
        view.outlook = None if onwards is None else outlook_of(onwards, known, pace, now)
