"""What campaigns and the service answer: plain data, without NumPy, the same on either end of a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from freepull import showing, validation
from freepull.errors import InvalidInput
from freepull.money import Money

SCOPES = ("admin", "operator", "read", "gateway", "payer")
"""What a token may be good for, agents' own tokens aside."""
SETTLEMENTS = ("open", "sent", "settled", "failed")
"""What may have become of a payment outside: nothing yet; it was handed to a payer; it arrived; it did not."""


def one_of(*words: str) -> Meta:
    """Return which words there are, for a description: nothing is checked by it."""
    return Meta(extra_json_schema={"enum": list(words)})


Standing = Annotated[str, one_of("enrolling", "running", "paused", "stopped")]
Phase = Annotated[str, one_of("observing", "incentivizing", "decided", "over")]
Mode = Annotated[str, one_of("free", "rounds")]
Outcome = Annotated[str, one_of("paid", "refused", "cancelled")]
Scope = Annotated[str, one_of(*SCOPES)]
Ending = Annotated[str, one_of("paid", "refused", "expired", "cancelled")]
Settlement = Annotated[str, one_of(*SETTLEMENTS)]


class Observation(NamedTuple):
    """One pull, as an agent tells it."""

    agent: str | int
    arm: str | int
    reward: float
    event: str | int | None = None
    """An id that makes telling safe to repeat, or the agent's own number of the event: 1, 2, 3 …"""

    @classmethod
    def of(cls, given: Any) -> Observation:
        """Read (agent, arm, reward), or that and an event."""
        try:
            return cls(*given)
        except TypeError:
            raise InvalidInput(
                f"an observation must be (agent, arm, reward), or that and an event, got {validation.shown(given)}."
            ) from None


@dataclass(frozen=True)
class CampaignOffer:
    """A bonus on one arm, to one agent, until a time."""

    id: int
    """The offer's number in its campaign."""
    agent: str
    """To whom it is made."""
    arm: str
    """What has to be pulled for it."""
    bonus: Money
    """What that pays."""
    expires: datetime
    """Until when."""
    accepted: bool = False
    """Whether the agent has said that it will act on it."""


class Told(NamedTuple):
    """The reply to a pull, an act or an outcome; the same again if it is told again."""

    event: int | None
    """Its place in the log; None if the number is an old one, whose reply is not kept."""
    outcome: Outcome | None = None
    """What became of the agent's open offer: paid, refused, cancelled (it had been taken back), or None."""
    offer: int | None = None
    """The offer that this pull ended, or which waits for its outcome."""
    paid: Money | None = None
    """What was paid for this pull."""


class Noted(msgspec.Struct):
    """The reply to an act or an outcome; the same again if it is told again."""

    event: int | None
    """Its place in the log."""
    outcome: Outcome | None
    """What became of the agent's open offer, or of the one that waited for the outcome; null if there was none."""
    offer: int | None
    """That offer; one without an outcome is paid when the outcome of the act is told."""
    paid: Money | None
    """What was paid."""


class Accepted(msgspec.Struct):
    """An offer that was accepted."""

    offer: CampaignOffer
    """The offer, with how long it stands now."""


@dataclass(frozen=True)
class Grounds:
    """What a verdict rests on."""

    rule: str
    """The rule in words, with "proven" or "heuristic"."""
    delta: float | None
    """δ: such a trial ends with a wrong certified verdict with probability δ at most; None without a claim."""
    target: str
    """Whom the verdict speaks of: the panel or the population, with which weights, up to which ε."""
    leavers: str
    """What becomes of agents who leave."""
    assumptions: tuple[str, ...]
    """What has to hold for it; nothing where nothing is proven."""

    def __str__(self) -> str:
        lines = [f"rule: {self.rule}", f"target: {self.target}", f"agents who leave: {self.leavers}"]
        if self.delta is not None and self.assumptions:
            error = f"such a trial ends with a wrong certified verdict with probability {self.delta:g} at most"
            lines.append(f"error: {error}")
        return "\n".join(lines + [f"assumes: {assumption}" for assumption in self.assumptions])


@dataclass(frozen=True)
class Difference:
    """By how much one arm is better than another on average, over the first comparisons: at least and at most."""

    arm: str | int
    """Its name, or in a trial its number."""
    than: str | int
    """The other one."""
    low: float
    """At least so much; below 0 it may be worse."""
    high: float
    """At most so much."""
    comparisons: int
    """Over how many comparisons, the first ones; the next look may read fewer."""
    people: int
    """Of how many agents."""
    seen: float | None = None
    """By how much it was better in what was seen, an estimate without a guarantee; None of an arm that is out."""
    unit: str = ""
    """What rewards are counted in, if that was said."""

    def __str__(self) -> str:
        who = f"the first {self.comparisons:,} comparisons, of {self.people:,} agents"
        seen = "" if self.seen is None else f" ({self.seen:+.3f} as seen)"
        by = f"{self.low:+.3f} to {self.high:+.3f}{f' {self.unit}' if self.unit else ''}"
        return f"{self.arm} is {by} better than {self.than}{seen}, over {who}"


@dataclass(frozen=True)
class Check:
    """How a check of one assumption stands."""

    name: str
    """Which one: common shock, drift, payment or reporting."""
    tests: str
    """What is assumed, in a sentence."""
    e_value: float | None
    """The most evidence against it that there ever was; None where nothing is tested."""
    level: float
    """An alarm is raised at 1/level; without any reason, with probability level at most."""
    alarmed: bool
    """Whether an alarm was raised; then no verdict is certified."""
    counted: int
    """How many pairs, choices or reports it looked at."""
    missing: float
    """The share of these that is not complete; effects below it cannot be seen."""
    why: str
    """All of that in a sentence."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class CampaignVerdict:
    """The arm, whether it is decided and certified, why, and what that rests on."""

    arm: str | None
    """The arm that is named; the leader while it is undecided, None before anybody has pulled any."""
    decided: bool
    """Whether the rule has decided."""
    certified: bool
    """Whether it is decided by a rule whose proof holds here; see ``rests_on.delta`` for what that says."""
    why: str
    """Why, in a sentence."""
    step: int | None
    """The step whose end decided it."""
    spent: Money
    """What was paid until now."""
    rests_on: Grounds
    """What has to hold for this verdict."""
    survives: float | None = None
    """It stands as long as payment, drift and the like move no mean by more than this; None if that is not known."""
    differences: list[Difference] = field(default_factory=list)
    """How much better one arm is than another, where the rule bounds that; once it is decided, as was known then."""
    checks: list[Check] = field(default_factory=list)
    """How the checks of assumptions stand now; an alarm takes the certificate away, also after the decision."""
    scale: str = ""
    """From what to what rewards run, as they are told; empty: from 0 to 1."""
    clipped: int = 0
    """How many rewards lay outside the scale, and count as its ends."""

    def __str__(self) -> str:
        standing = "certified" if self.certified else "decided, not certified" if self.decided else "undecided"
        when = f" at step {self.step}" if self.step is not None else ""
        return f"{self.arm or 'no arm'} ({standing}{when}, {self.spent} spent): {self.why}"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        head = ("arm", "decided", "certified", "step", "spent", "survives")
        shown = self.arm, self.decided, self.certified, self.step, str(self.spent), self.survives
        return showing.table("verdict", head, [shown], [self.why, str(self.rests_on)])


@dataclass(frozen=True)
class Arm:
    """One arm, as it stands."""

    name: str
    """Its name."""
    active: bool
    """Whether it is still in: neither eliminated nor withdrawn."""
    mean: float | None
    """The global sample mean: of every agent's own mean, over those who have pulled it; None while nobody has."""
    bound: float | None
    """What stops the trial: evidence that goes up to the threshold, or the paper's confidence bound."""
    pulls: int
    """How often it was pulled."""
    paid: int
    """For how many of these pulls a bonus was paid."""
    withdrawn: bool = False
    """Whether it was taken out by somebody, not by the rule."""
    compared: float | None = None
    """Its mean in comparisons, by which they name a leader; None while there is none, and under other rules."""


@dataclass(frozen=True)
class Status:
    """How a campaign stands."""

    name: str
    """The campaign's name."""
    status: Standing
    """enrolling, running, paused or stopped."""
    why: str
    """Why it was stopped."""
    phase: Phase | None
    """observing, incentivizing, decided or over (undecided at the horizon); None before the start."""
    mode: Mode
    """free: everybody at their own pace; rounds: everybody once a round."""
    step: int
    """Steps that have ended."""
    in_step: int
    """Pulls since the last step ended; a step in free mode is as many as there are agents."""
    horizon: int | None
    """The last step; None if there is none."""
    kappa: int | None
    """κ: the last step that is only watched, after which offers are made; None until it is known."""
    agents: int
    """How many agents count."""
    late_joiners: int
    """How many joined later and are only observed."""
    observations: int
    """Pulls that count."""
    observed_only: int
    """Pulls of late joiners, which do not count."""
    arms: list[Arm] = field(repr=False)
    """Every arm, in its order."""
    threshold: float | None
    """An arm goes when its bound reaches this; None where the rule has no such number."""
    leader: str | None
    """The arm that is ahead now, by means in comparisons where the rule makes them; None before the first pull."""
    decided: bool
    """Whether the rule has decided."""
    certified: bool
    """Whether it has, and its guarantee holds."""
    rehearsal: bool
    """Whether simulated agents have played, so that it is closed to real ones and never certified."""
    offered: int
    """Offers that were made."""
    open_offers: int
    """Offers that have not ended."""
    paid: int
    """Offers that were taken and paid."""
    refused: int
    """Offers whose agent pulled another arm."""
    expired: int
    """Offers whose agent did nothing until the deadline."""
    cancelled: int
    """Offers that were taken back."""
    banned: int
    """Agents who get no offers now because they refused some."""
    absent: int
    """Agents who left, or are parked because they let offers expire."""
    awaited: list[str]
    """Agents without whom the rule cannot go on, or the round cannot close, silent ones included; at most ten."""
    price: Money
    """What one bonus costs; with a ``pricing``, what a bonus of 1 costs."""
    spent: Money
    """What was paid."""
    reserved: Money
    """What open offers may still cost."""
    budget: Money | None
    """The most that may be spent; None: no limit."""
    events: int
    """How many events the log has."""
    at: datetime
    """When the last of them happened."""
    survives: float | None = None
    """The verdict stands as long as payment, drift and the like move no mean by more than this; None if not known."""
    differences: list[Difference] = field(default_factory=list)
    """How much better the leader is than every other arm that is in, then the same of arms that went and to which."""
    checks: list[Check] = field(default_factory=list)
    """How the checks of assumptions stand; empty before the start, and where none run."""
    pricing: str = ""
    """How offers are priced, each with an amount of its own; empty where every bonus costs the price."""
    remedy: str = ""
    """What can be done about those who are awaited; empty if nobody is."""
    acted: int = 0
    """Agents who count and have pulled at least once."""
    epsilon: float | None = None
    """ε: it is also decided when the leader is proven to be at most so much worse than every other arm that is in."""
    within: float | None = None
    """The evidence for that, which decides at the threshold; None before the first look, and where no ε is granted."""
    comparisons: int | None = None
    """Comparisons opened, complete or not; None where the rule makes none."""
    settled: int = 0
    """Payments of the ledger that are known to have arrived."""
    lapsed: int = 0
    """Offers that were not accepted in time."""
    open_acts: int = 0
    """Pulls that count whose outcomes are to come, and pulls of late joiners."""
    never_came: int = 0
    """Outcomes that did not come in time, and count as was agreed."""
    unavailable: int = 0
    """Agents to whom an arm that is still in is unavailable now."""
    held: str = ""
    """Why no offers are made for now although it goes on; empty if they are."""
    scale: str = ""
    """From what to what rewards run, as they are told, and means are shown; empty: from 0 to 1."""
    clipped: int = 0
    """How many rewards lay outside the scale, and count as its ends."""


@dataclass(frozen=True)
class LedgerEntry:
    """One payment."""

    entry: int
    """Entries are counted from 1."""
    offer: int
    """The offer that was taken."""
    agent: str
    """Who was paid."""
    arm: str
    """For which arm."""
    amount: Money
    """How much."""
    at: datetime
    """When."""
    settlement: Settlement = "open"
    """What became of it outside: open, sent (a payer has it), settled or failed."""
    key: str = ""
    """By which a payer knows it: the same however often it is sent, and another one only after it has failed."""
    payer: str = ""
    """Who sent it."""
    note: str = ""
    """What the payer calls it, or why it failed."""
    moved: datetime | None = None
    """When its settlement last changed."""


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a payment."""

    entry: Annotated[int, Meta(extra_json_schema={"minimum": 1})]
    """Of the ledger."""
    state: Settlement
    """open, sent, settled or failed."""
    note: Annotated[str, Meta(max_length=200)] = ""
    """What the payer calls it, or why it failed; no names, because the log keeps it for good."""
    key: Annotated[str, Meta(max_length=200)] = ""
    """The key that it was sent with: refused if it has another one by now; empty: whichever it has."""


class Moved(msgspec.Struct):
    """How many entries of the ledger have changed their settlement."""

    moved: int
    """Those that were in that state already are not counted."""


@dataclass(frozen=True)
class OfferRow:
    """One offer, ended or not."""

    offer: int
    """Offers are counted from 1."""
    agent: str
    """To whom it was made."""
    arm: str
    """For which arm."""
    step: int
    """In which step it was made."""
    at: datetime
    """When it was made."""
    expires: datetime
    """Until when it stands."""
    recalled: bool
    """Whether it was taken back; a pull of the arm until the deadline is still paid."""
    ending: Ending | None
    """paid, refused, expired or cancelled; None while it is open, or waits for the outcome of its act."""
    ended: datetime | None
    """When it ended."""
    bonus: Money
    """What it pays."""


@dataclass(frozen=True)
class BanRow:
    """One ban."""

    agent: str
    """Who was banned."""
    offer: int
    """The offer that was refused."""
    step: int
    """In which step."""
    until: int | None
    """The last step of the ban; None if it is for ever."""
    at: datetime
    """When it began."""
    lifted: datetime | None
    """When somebody ended it."""


TIME_OVER = "its time was over"
"""Why a campaign stops by itself."""


@dataclass(frozen=True)
class AuditEntry:
    """Something that somebody did, or that the campaign concluded."""

    event: int
    """Its place in the log."""
    at: datetime
    """When."""
    who: str
    """Who did it; empty: the campaign itself, or somebody who did not say."""
    action: str
    """What was done, such as created, started, budget or step_ended."""
    detail: dict[str, Any]
    """More about it; agents and arms by name, money with its currency."""

    @property
    def its_own(self) -> bool:
        """Whether the campaign did it by itself."""
        return self.action in ("step_ended", "step_closed", "parked") or self.detail.get("why") == TIME_OVER


@dataclass(frozen=True)
class TokenRow:
    """A token as admins see it; its secret is known to nobody."""

    id: str
    """By which it is revoked."""
    scope: str
    """admin, operator, read, gateway or payer."""
    campaign: str
    """The only campaign it is for; empty: all."""
    label: str
    """What it is for, in its maker's words."""
    made: datetime
    """When it was made."""
    expires: datetime | None
    """When it ends; None: never."""
    revoked: datetime | None
    """When it was revoked."""


@dataclass(frozen=True)
class TokenEntry:
    """Something that somebody did with tokens."""

    entry: int
    """Entries are counted from 1."""
    at: datetime
    """When."""
    who: str
    """Who did it: the token that was shown, or what was said in a shell; empty: whoever has the store."""
    action: Annotated[str, one_of("made", "revoked")]
    """made or revoked."""
    id: str
    """The token's id; empty for those of agents, which have none."""
    scope: str
    """admin, operator, read, gateway, payer or agent."""
    campaign: str
    """The only campaign it is for; empty: all."""
    label: str
    """What it is for, in its maker's words."""
    agents: str
    """The numbers of the agents whose tokens these are, such as 0-4, 7."""


class CampaignRow(msgspec.Struct):
    """A campaign, and who has it."""

    name: str
    """Its name."""
    owner: str
    """The address of the process that owns it; empty: nobody."""
    here: bool
    """Whether that is this process."""
    status: Standing | None
    """enrolling, running, paused or stopped; null if it is not here."""
    decided: bool | None
    """Whether its rule has decided; null if it is not here."""


class Stuck(msgspec.Struct):
    """Why a campaign does not go on, or not as fast as it could, and what helps."""

    why: Annotated[str, one_of("paused", "budget", "banned", "absent", "quiet", "over")]
    """paused; budget: it is used up, or less is left than a bonus costs on average; banned, absent: who is awaited
    cannot act, or does not; quiet: nobody does anything; over: the horizon is reached."""
    words: str
    """The same in a sentence, with what can be done."""
    agents: list[str] = []
    """Who is awaited, at most ten."""
    helps: Annotated[str, one_of("", "resume", "budget", "unban", "stop")] = ""
    """The command that helps; empty: none does, people have to."""


class Outlook(msgspec.Struct):
    """When a verdict is expected, and what will have been spent then: a forecast from what was seen, and no promise."""

    made: datetime
    """When it was made."""
    chance: float
    """The share of the simulated courses that end with a verdict: in time, and within the budget."""
    when: list[datetime]
    """Before which 5, 50 and 95 % of those verdicts come, at the pace of the later half of all pulls; empty: none."""
    spend: list[Money]
    """What 5, 50 and 95 % of all courses have spent at most, in all."""
    runs: int
    """How many courses were simulated."""


class OverviewRow(msgspec.Struct):
    """A campaign in short: which arm, how sure, what was spent, and whether it is stuck."""

    name: str
    """Its name."""
    owner: str
    """The address of the process that owns it; empty: nobody."""
    here: bool
    """Whether that is this process; what follows is only known then."""
    status: Standing | None = None
    """enrolling, running, paused or stopped."""
    phase: Phase | None = None
    """observing, incentivizing, decided or over; null before the start."""
    leader: str | None = None
    """The arm that is ahead, or was named."""
    decided: bool = False
    """Whether the rule has decided."""
    certified: bool = False
    """Whether it has, and its guarantee holds."""
    rehearsal: bool = False
    """Whether simulated agents play."""
    risk: float | None = None
    """At which risk of error it would be decided now; null where the rule cannot say."""
    agreed: float | None = None
    """δ: at which risk it is decided."""
    ahead: Difference | None = None
    """How much better the leader is than the arm that comes closest."""
    scale: str = ""
    """On which scale rewards are; empty: [0, 1]."""
    step: int = 0
    """Steps that have ended."""
    horizon: int | None = None
    """The last step."""
    agents: int = 0
    """How many agents count."""
    spent: Money | None = None
    """What was paid."""
    budget: Money | None = None
    """The most that may be spent; null: no limit."""
    unsettled: int = 0
    """Payments that are not known to have arrived."""
    stuck: list[Stuck] = []
    """Why it does not go on; empty: it does."""
    alarms: list[str] = []
    """Checks of assumptions that have raised an alarm."""
    at: datetime | None = None
    """When something last happened."""
    outlook: Outlook | None = None
    """When a verdict is expected, and for how much; null: not known yet, or not any more."""


class DeliveryRow(msgspec.Struct):
    """How far a campaign's events were delivered to a target of webhooks."""

    campaign: str
    """The campaign's name."""
    event: int
    """Events of its log before this one were delivered."""
    behind: int
    """How many events the log has gone on since."""
    failures: int
    """How often in a row the last delivery has failed."""
    last: str
    """What came of the last one, in words."""


class TargetRow(msgspec.Struct):
    """A target of webhooks."""

    name: str
    """How it is called."""
    url: str
    """Where it is."""
    events: list[str]
    """What it is told; empty: everything."""
    campaigns: list[str]
    """Of which campaigns; empty: of all."""
    deliveries: list[DeliveryRow]
    """How far it has got, for the campaigns of this process."""


class Tried(msgspec.Struct):
    """What came of a delivery that was asked for."""

    delivered: bool
    """Whether the target has taken it."""
    detail: str
    """What came of it, in words."""


class AgentRow(msgspec.Struct):
    """One agent, as it stands."""

    number: int
    """Agents are counted from 0."""
    name: str
    """Its name, or "#" and its number."""
    pulls: list[int]
    """By arm; empty for late joiners, and before the start."""
    state: Annotated[str, one_of("active", "banned", "parked", "left", "late")]
    """active; banned after a refusal; parked after three offers that expired; left; or late: only observed."""
    offer: int | None
    """Its open offer."""


class Me(msgspec.Struct):
    """What an agent may know."""

    agent: str
    """Its name, or "#" and its number."""
    campaign: str
    """The campaign's name."""
    status: Standing
    """enrolling, running, paused or stopped."""
    phase: Phase | None
    """observing, incentivizing, decided or over; null before the start."""
    arms: list[str]
    """What can be pulled."""
    pulls: list[int]
    """The agent's own, by arm."""
    offer: CampaignOffer | None
    """The open offer, if there is one."""
    banned: bool
    """Whether it gets no offers because it refused some."""
    next_number: int
    """The number of the next event, for agents who number them."""
    unavailable: list[str] = []
    """Arms that it cannot have for now, and is offered nothing for."""
    scale: str = ""
    """On which scale rewards are; empty: [0, 1]."""
    range: tuple[float, float] = (0.0, 1.0)
    """The ends of that scale."""


class Enrolled(msgspec.Struct):
    """The numbers of new agents."""

    numbers: list[int]
    """In the order in which they were sent."""


class Snapshot(msgspec.Struct):
    """A snapshot that was stored."""

    events: int
    """After how many events of the log it was taken."""


class Imported(msgspec.Struct):
    """What was told from a file."""

    observations: int
    """How many of its rows were new."""


class AgentToken(msgspec.Struct):
    """An agent's token."""

    agent: str
    """Its name, or "#" and its number."""
    token: str
    """The secret; it cannot be shown again."""


class AgentTokens(msgspec.Struct):
    """Tokens, shown once."""

    tokens: list[AgentToken]
    """In the order in which agents were sent."""


class MadeToken(msgspec.Struct):
    """A token, shown once."""

    id: str
    """By which it is listed and revoked."""
    token: str
    """The secret; it cannot be shown again."""
    scope: Scope
    """admin, operator, read, gateway or payer."""
    campaign: str
    """The only campaign it is for; empty: all."""
    expires: datetime | None
    """When it ends; null: never."""
