"""The end of a step, in slices: nothing that agents see changes before its last moment."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from freepull.principal.record import STREAMS, Work, finish, pieces
from freepull.principal.rules.base import RuleState, Wanted
from freepull.principal.schedules import Adaptive, looks_at

if TYPE_CHECKING:
    from freepull.principal.trial import Trial

Payable = NDArray[np.bool_]
View = tuple[RuleState, list[bool]]
_NOBODY = np.zeros(0, bool)


class Closing:
    """A step that has ended and is being worked on."""

    def __init__(self, trial: Trial, banning: Work[None]) -> None:
        self._trial = trial
        self._later = array("I"), array("I")
        """Pulls that were told meanwhile: streams and rewards."""
        self._shown = self._worked_on = self._view()
        """The rule as it is shown, and as it is worked on."""
        self._work = self._slices(banning, *payable(trial))

    def tell_later(self, streams: bytes, rewards: bytes) -> None:
        """Keep pulls, as 32-bit words, for the next step; so are asks, where the rule hears them."""
        self._later[0].frombytes(streams)
        self._later[1].frombytes(rewards)

    def go_on(self, seconds: float | None) -> bool:
        """Work for about this many seconds, or to the end; return whether it is done."""
        self._show(self._worked_on)
        if seconds is None:
            finish(self._work)
            return True
        until = time.perf_counter() + seconds
        for _ in self._work:
            if time.perf_counter() >= until:
                self._worked_on = self._view()
                self._show(self._shown)
                return False
        return True

    def _slices(self, banning: Work[None], who: Payable, room: int) -> Work[None]:
        """Bans, the rule, the schedule, and whom the rule wants in the next step."""
        trial = self._trial
        t, kappa = trial.steps, trial.kappa
        yield from banning
        yield from trial.panel.renewal()
        trial.rule.step = t
        yield from trial.rule.evaluation(incentivizing=kappa is not None and t >= kappa)
        schedule, waits, futile = trial.principal.observe, trial.waits, trial.futile
        if isinstance(schedule, Adaptive) and schedule.looks(t, trial.setting):
            if trial.rule.forecasts:
                if not trial.rule.decided:
                    waits = not schedule.pays(t, (yield from trial.rule.still_owed()), trial.setting)
                    kappa = t if kappa is None and not waits else kappa
            elif kappa is None:
                total, most = yield from trial.rule.lacking()
                if schedule.due(t, total, most, trial.setting):
                    kappa = t
                    yield from trial.rule.evaluation(incentivizing=True)
        if trial.principal.futility > 0.0 and kappa is not None and t >= kappa and not trial.rule.decided:
            T = trial.setting.horizon_for("futility")
            if looks_at(t, T, trial.setting.arms):
                futile = (yield from trial.rule.chance(T - t, trial.offers.pays_for)) < trial.principal.futility
        decided = trial.rule.decided
        wanted = None if decided or waits or futile else (yield from wanting(trial, who, room, kappa))
        while self._later[0]:
            streams, rewards = (np.array(kept, np.uint32) for kept in self._later)
            self._later = array("I"), array("I")
            for first, last in pieces(len(streams), STREAMS):
                trial.panel.take(streams[first:last], rewards[first:last])
                yield
        trial.kappa, trial.decided_at = kappa, t if decided else None
        trial.waits, trial.futile = waits, futile
        trial.offers.begin(t + 1, trial.setting.horizon)
        trial.offers.replace(wanted, trial.panel.absent)

    def _view(self) -> View:
        state = self._trial.panel.state
        return state, state.active

    def _show(self, view: View) -> None:
        panel = self._trial.panel
        panel.state, panel.state.active = view


def payable(trial: Trial) -> tuple[Payable, int]:
    """Say who could get an offer, bans aside, and how many; none where one is open that must be the only one."""
    if trial.kappa is not None and trial.steps < trial.kappa:
        return _NOBODY, 0
    who = trial.offers.open < 0
    if np.count_nonzero(trial.panel.absent):
        who &= ~trial.panel.absent
    if trial.resting:
        who[list(trial.resting)] = False
    return who, 0 if trial.offers.taken_up else trial.offers.room


def wanting(trial: Trial, who: Payable, room: int, kappa: int | None) -> Work[Wanted | None]:
    """Find who is wanted for what in the coming step; short of money, the neediest come first.

    Whoever is wanted for an arm that is unavailable to it is passed over in this step, for whoever comes next.
    """
    if trial.over or kappa is None or trial.steps < kappa or room < 1:
        return None
    if trial.rule.hears_asks and not trial.offers.one:
        return None  # found at every ask
    if np.count_nonzero(trial.bans.until):
        who = who & (trial.bans.until <= trial.steps)
    while True:
        wanted = yield from trial.rule.wanting(who, room)
        barred = [agent for agent, arm in trial.unavailable if wanted[agent] == arm]
        if not barred:
            return wanted
        who = who.copy()
        who[barred] = False
