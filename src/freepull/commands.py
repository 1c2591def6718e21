"""What can be done with a campaign: a message for every verb, and the verbs, written once for waiting and for asyncio.

A verb is a `Command` here, a handler in `freepull.campaigns`, and a line in `Verbs`. Whoever has the verbs says how a
command is done: `Campaign` and `AsyncCampaign` hand it to the engine, the campaigns of a client send it to a service.
The service's routes and the shell's commands are made from what commands declare.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property
from os import PathLike
from string import Formatter
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, ParamSpec, TypeVar, get_args, get_type_hints, overload

import msgspec
from msgspec import Meta

from freepull.errors import FreepullError
from freepull.messages import (
    Accepted,
    AuditEntry,
    BanRow,
    CampaignOffer,
    CampaignVerdict,
    Enrolled,
    LedgerEntry,
    Me,
    Move,
    Moved,
    Noted,
    OfferRow,
    Snapshot,
    Status,
    Told,
)
from freepull.money import MOST, pattern

Arguments = ParamSpec("Arguments")
Reply = TypeVar("Reply")
LONGEST_NAME = 200
MOST_AGENTS = 50_000_000


class Twin(Generic[Arguments, Reply]):
    """A method that is written once: who is `Blocking` waits for its reply, who is `Awaiting` awaits it."""

    @overload
    def __get__(self, having: None, kind: type) -> Callable[..., Any]: ...

    @overload
    def __get__(self, having: Blocking, kind: type) -> Callable[Arguments, Reply]: ...

    @overload
    def __get__(self, having: Awaiting, kind: type) -> Callable[Arguments, Coroutine[Any, Any, Reply]]: ...

    def __get__(self, having: Any, kind: type) -> Any:
        return self

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run
        """What the method does; it returns the reply, or something to be awaited, as whoever has it does."""

    @cached_property
    def described(self) -> tuple[str | None, inspect.Signature]:
        """The docstring, and the signature."""
        raise NotImplementedError


class Blocking:
    """Whose methods wait: every `Twin` of a class becomes a plain method here."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _settle(cls, _waiting)


class Awaiting:
    """Whose methods are awaited: every `Twin` of a class becomes a coroutine function here."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _settle(cls, _awaiting)


def _waiting(run: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *args, **kwargs)

    return method


def _awaiting(run: Callable[..., Any]) -> Callable[..., Any]:
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await run(self, *args, **kwargs)

    return method


def _settle(kind: type, form: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    for name in {name for parent in kind.__mro__ for name in vars(parent)}:
        found = inspect.getattr_static(kind, name)
        if isinstance(found, Twin):
            method: Any = form(found.run)
            method.__name__, method.__qualname__, method.__module__ = name, f"{kind.__name__}.{name}", kind.__module__
            method.__doc__, method.__signature__ = found.described
            setattr(kind, name, method)


class Route(NamedTuple):
    """How a command is sent to the service."""

    method: str
    path: str
    """Below the campaign; what stands in braces is a field, or one of a field of many: ``{agent}`` of ``agents``."""
    reply: Any = Status
    """What the service answers: how the campaign stands now, if there is nothing else to say."""
    field: str = ""
    """Where in the answer the reply of the verb is; "*": the answer has the reply's own fields."""
    name: str = ""
    """What the operation is called, if not as the verb is."""
    status: int = 200
    """The status of the answer."""
    key: str = ""
    """By which field of a row the next page is asked for; empty: by how many there were."""

    @property
    def names(self) -> list[str]:
        """What the path names."""
        return [name for _, name, _, _ in Formatter().parse(self.path) if name]


class Shell(NamedTuple):
    """How a command is given in a shell."""

    example: str = ""
    """What may follow the campaign's name."""
    done: str = ""
    """What is said when it is done: fields by their names, and ``status`` for how the campaign stands then."""


class Command(msgspec.Struct, Generic[Reply], frozen=True):
    """Something to be done with a campaign; what it replies is in its type."""

    verb: ClassVar[str] = ""
    """The method that does it."""
    route: ClassVar[Route | None] = None
    """Where the service has it."""
    shell: ClassVar[Shell | None] = None
    """How it is given in a shell, where that needs nothing of its own."""

    @classmethod
    def replies(cls) -> Any:
        """Return the type of the reply."""
        (base,) = cls.__orig_bases__  # type: ignore[attr-defined]
        return get_args(base)[0]

    @classmethod
    def body(cls) -> list[msgspec.structs.FieldInfo]:
        """Return the fields that are sent in the body of a request: all but who does it, and what the path names."""
        if cls.route is not None and cls.route.method == "DELETE":
            return []
        names = [] if cls.route is None else cls.route.names
        left_out = {"by", *names, *(f"{name}s" for name in names)}
        return [field for field in msgspec.structs.fields(cls) if field.name not in left_out]


class Verb(Twin[Arguments, Reply]):
    """A method that does a command; its parameters are the command's."""

    def __init__(self, command: Callable[Arguments, Command[Reply]]) -> None:
        super().__init__(lambda self, *args, **kwargs: self.do(command(*args, **kwargs)))
        self.command: Any = command

    def __set_name__(self, owner: type, name: str) -> None:
        self.command.verb = name

    @cached_property
    def described(self) -> tuple[str | None, inspect.Signature]:
        """What the command says of itself."""
        own, types = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), get_type_hints(self.command)
        fields = inspect.signature(self.command).parameters.values()
        parameters = [own, *(field.replace(annotation=types[field.name]) for field in fields)]
        return self.command.__doc__, inspect.Signature(parameters, return_annotation=self.command.replies())


_UNSEEN = "\\u0000-\\u001f\\u007f-\\u00a0\\u00ad\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f"
_UNSEEN += "\\u3000\\ue000-\\uf8ff\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff"
PRINTABLE = f"^[^{_UNSEEN}]*$"
"""What names and reasons are made of, as far as a pattern can say it: Unicode has more that cannot be printed."""
ARM_NAME, AGENT_NAME = (f"^(?![{sign}])(?=.*[^ ])[^{_UNSEEN}]*$" for sign in ("'", "'#"))
AMOUNT = pattern(MOST)
Weight = Annotated[float, Meta(extra_json_schema={"minimum": 0})]
Agent = Annotated[str | int, Meta(description="The agent's name, or # and its number.")]
Agents = Annotated[
    Annotated[
        Sequence[
            Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, extra_json_schema={"pattern": AGENT_NAME})]
        ],
        Meta(extra_json_schema={"uniqueItems": True}),
    ]
    | Annotated[int, Meta(ge=1, le=MOST_AGENTS)],
    Meta(description="Their names, or how many without names."),
]
Arm = Annotated[str | int, Meta(description="The arm.")]
By = Annotated[str, Meta(description="Who does it, for the audit.")]
After = Annotated[int, Meta(description="Only what comes after this one.")]
Path = str | PathLike[str]


class Ask(Command[CampaignOffer | None], frozen=True):
    """Return the offer for an agent, if there is one; asking again returns the same offer while it is open."""

    agent: Agent


class Tell(Command[Told], frozen=True):
    """Tell one pull. With an ``event``, an id or the agent's own number, it is safe to repeat."""

    agent: Agent
    arm: Arm
    reward: float | bool | str
    event: str | int | None = None


class TellMany(Command[list[Told]], frozen=True):
    """Tell many pulls in one commit, each an `Observation` or (agent, arm, reward, event): all or none."""

    observations: Iterable[Any]
    by: By = ""


class TellEach(Command[list[Told | FreepullError]], frozen=True):
    """Tell many pulls in one commit, each as for `Campaign.tell_many`; what is wrong with one stands in its place."""

    observations: Iterable[Any]
    by: By = ""


class Start(Command[None], frozen=True):
    """Close the panel and begin."""

    by: By = ""
    route: ClassVar = Route("POST", "start")
    shell: ClassVar = Shell(done="{status.name} has started, with {status.agents:,} agents")


class Pause(Command[None], frozen=True):
    """Make no offers until it is resumed, and take the open ones back; pulls are still told, and still count."""

    by: By = ""
    route: ClassVar = Route("POST", "pause")
    shell: ClassVar = Shell(done="{status.name} is paused; pulls are still told, and still count")


class Resume(Command[None], frozen=True):
    """Make offers again."""

    by: By = ""
    route: ClassVar = Route("POST", "resume")
    shell: ClassVar = Shell(done="{status.name} goes on")


class Stop(Command[None], frozen=True):
    """End the campaign for good; a pull of an offered arm that is on its way can still be told, and is paid."""

    why: Annotated[
        str,
        Meta(
            max_length=LONGEST_NAME, description="The reason, for the audit.", extra_json_schema={"pattern": PRINTABLE}
        ),
    ] = ""
    by: By = ""
    route: ClassVar = Route("POST", "stop")
    shell: ClassVar = Shell('--why "season over"', "{status.name} has stopped")


class SetBudget(Command[None], frozen=True):
    """Change the most that may be spent."""

    budget: Annotated[
        Annotated[str, Meta(examples=["30 EUR"], extra_json_schema={"pattern": AMOUNT})] | None,
        Meta(description="The most that may be spent, such as 500 EUR; none: no limit."),
    ]
    by: By = ""
    route: ClassVar = Route("PATCH", "budget")
    shell: ClassVar = Shell('"500 EUR"', "{status.name} has a new budget: {budget}")


class AddAgents(Command[list[int]], frozen=True):
    """Add agents and return their numbers; from the start on they are late joiners."""

    agents: Agents
    weights: Annotated[
        Sequence[Weight] | None,
        Meta(description="How much each of them counts; none: all the same."),
    ] = None
    by: By = ""
    route: ClassVar = Route("POST", "agents", Enrolled, "numbers", name="enrol", status=201)


class OfAgent(Command[Reply], frozen=True):
    """Something that is done about one agent."""

    agent: Agent
    by: By = ""


class Leave(OfAgent[None], frozen=True):
    """Note that an agent has left; what follows was agreed when the campaign was created."""

    route: ClassVar = Route("POST", "agents/{agent}/leave")
    shell: ClassVar = Shell("user-17", "{agent} has left")


Offered = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    Meta(description="The number of the offer that is meant; none: whichever is open."),
]
Event = Annotated[
    str | int, Meta(description="An id of the act, or the agent's own number of it, by which its outcome is told.")
]


class Accept(OfAgent[CampaignOffer], frozen=True):
    """Note that an agent will act on its open offer, which stands longer then; saying it again changes nothing."""

    offer: Offered = None
    route: ClassVar = Route("POST", "agents/{agent}/accept", Accepted, "offer")


class Decline(OfAgent[None], frozen=True):
    """Note that an agent refuses its open offer and makes no pull; what follows was agreed as the protocol."""

    offer: Offered = None
    route: ClassVar = Route("POST", "agents/{agent}/decline", Me)
    shell: ClassVar = Shell("user-17 --offer 12", "{agent} has declined its offer")


class Act(Command[Told], frozen=True):
    """Note that a pull is made; its outcome is told later, by the same event. Safe to repeat."""

    agent: Agent
    arm: Arm
    event: Event
    route: ClassVar = Route("POST", "agents/{agent}/acts", Noted, "*")


class TellOutcome(Command[Told], frozen=True):
    """Tell the outcome of an act, by the act's event. Safe to repeat."""

    agent: Agent
    event: Event
    reward: Annotated[float | bool | str, Meta(description="What came of it, in [0, 1] or on the campaign's scale.")]
    route: ClassVar = Route("POST", "agents/{agent}/outcomes", Noted, "*")


class PassOver(OfAgent[None], frozen=True):
    """Note that an agent who asked made no pull, so that none is under way; an open offer stands."""

    event: Annotated[
        str | int | None,
        Meta(description="An id that makes it safe to repeat, or the agent's own number of the event."),
    ] = None
    route: ClassVar = Route("POST", "agents/{agent}/pass-over", Me)
    shell: ClassVar = Shell("user-17 --event v2", "{agent} asked and made no pull")


class Unban(OfAgent[None], frozen=True):
    """End an agent's ban and forget its refusals."""

    route: ClassVar = Route("POST", "agents/{agent}/unban")
    shell: ClassVar = Shell("user-17", "{agent} can get offers again")


class Withdraw(Command[None], frozen=True):
    """Take an arm out; it must have been provided for when the campaign was created."""

    arm: Arm
    by: By = ""
    route: ClassVar = Route("POST", "arms/{arm}/withdraw")
    shell: ClassVar = Shell("B", "{arm} is withdrawn")


class Unavailable(Command[None], frozen=True):
    """Offer an agent nothing for an arm that it cannot have, for a while or until it is said to be available again."""

    agent: Agent
    arm: Arm
    lasts: Annotated[
        Annotated[str, Meta(examples=["2 days"])] | None,
        Meta(description="For how long, such as 2 days; none: until it is said to be available again."),
    ] = None
    by: By = ""
    route: ClassVar = Route("POST", "agents/{agent}/arms/{arm}/unavailable", Me)
    shell: ClassVar = Shell('user-17 B --lasts "2 days"', "{arm} is unavailable to {agent}")


class Available(Command[None], frozen=True):
    """Let an agent have an arm again that was unavailable to it; saying it twice changes nothing."""

    agent: Agent
    arm: Arm
    by: By = ""
    route: ClassVar = Route("POST", "agents/{agent}/arms/{arm}/available", Me)
    shell: ClassVar = Shell("user-17 B", "{arm} is available to {agent}")


class EraseNames(Command[None], frozen=True):
    """Erase names of agents for good, unless they are owed something; the log and the tables know them by number."""

    agents: Annotated[Sequence[str | int] | None, Meta(description="Whose; none: everybody's.")] = None
    by: By = ""
    anyway: Annotated[bool, Meta(description="Also of those who are still owed something.")] = False
    route: ClassVar = Route("DELETE", "agents/{agent}/name", None, name="erase_name", status=204)


class Settle(Command[int], frozen=True):
    """Say what became of payments outside, all or none; return how many moved. It is safe to repeat."""

    moves: Annotated[
        Sequence[Move], Meta(description="Entries of the ledger, and what became of them.", max_length=10_000)
    ]
    payer: Annotated[
        str,
        Meta(
            max_length=LONGEST_NAME,
            description="Who sends them; what one payer has sent, no other one sends.",
            extra_json_schema={"pattern": PRINTABLE},
        ),
    ] = ""
    by: By = ""
    route: ClassVar = Route("POST", "ledger/settle", Moved, "moved")


class TakeSnapshot(Command[int], frozen=True):
    """Take a snapshot, so that the next start is faster; return after how many events, once it is stored."""

    route: ClassVar = Route("POST", "snapshot", Snapshot, "events")


class ReadStatus(Command[Status], frozen=True):
    """Say how the campaign stands."""

    route: ClassVar = Route("GET", "")


class ReadVerdict(Command[CampaignVerdict], frozen=True):
    """Say which arm, whether that is decided and certified, why, and what it rests on."""

    route: ClassVar = Route("GET", "verdict", CampaignVerdict)


class Listing(Command[Reply], frozen=True):
    """Return rows; a service sends them page by page."""

    after: After = 0
    shell: ClassVar = Shell("--json")


class ReadLedger(Listing[list[LedgerEntry]], frozen=True):
    """List what was paid; all entries, or those in one state of settlement."""

    settlement: Annotated[
        str, Meta(description="Only what is open, sent, settled or failed; or unsettled: all but what is settled.")
    ] = ""
    route: ClassVar = Route("GET", "ledger", list[LedgerEntry], key="entry")


class ReadOffers(Listing[list[OfferRow]], frozen=True):
    """List all offers, and what became of them."""

    route: ClassVar = Route("GET", "offers", list[OfferRow], key="offer")


class ReadBans(Listing[list[BanRow]], frozen=True):
    """List all bans, counted from 1."""

    route: ClassVar = Route("GET", "bans", list[BanRow])


class ReadAudit(Listing[list[AuditEntry]], frozen=True):
    """List who did what when, and what was concluded."""

    after: After = -1
    route: ClassVar = Route("GET", "audit", list[AuditEntry], key="event")


class Export(Command[int], frozen=True):
    """Write observations or the ledger to a .parquet or .csv file; return how many rows."""

    path: Path
    what: str = "observations"


class Import(Command[int], frozen=True):
    """Tell the observations of a file with the columns agent, arm, reward and perhaps event; return how many were new.

    All of them, or none if anything is wrong with a row. The same file is told once.
    """

    path: Path
    by: By = ""


class Verbs:
    """All that can be done with a campaign, wherever it is."""

    ask = Verb(Ask)
    tell = Verb(Tell)
    tell_each = Verb(TellEach)
    accept = Verb(Accept)
    decline = Verb(Decline)
    act = Verb(Act)
    outcome = Verb(TellOutcome)
    pass_over = Verb(PassOver)
    start = Verb(Start)
    pause = Verb(Pause)
    resume = Verb(Resume)
    stop = Verb(Stop)
    budget = Verb(SetBudget)
    add_agents = Verb(AddAgents)
    leave = Verb(Leave)
    unban = Verb(Unban)
    withdraw = Verb(Withdraw)
    unavailable = Verb(Unavailable)
    available = Verb(Available)
    erase_names = Verb(EraseNames)
    snapshot = Verb(TakeSnapshot)
    status = Verb(ReadStatus)
    verdict = Verb(ReadVerdict)
    ledger = Verb(ReadLedger)
    settle = Verb(Settle)
    offers = Verb(ReadOffers)
    bans = Verb(ReadBans)
    audit = Verb(ReadAudit)
    export = Verb(Export)
    import_observations = Verb(Import)


COMMANDS: tuple[type[Command[Any]], ...] = tuple(it.command for it in vars(Verbs).values() if isinstance(it, Verb))
"""The command of every verb."""


class CampaignVerbs(Verbs, Blocking):
    """The verbs, for programs that wait: what `Campaign` and `RemoteCampaign` have in common."""

    def do(self, command: Command[Reply]) -> Reply:
        """Do what a command says."""
        raise NotImplementedError


class AsyncCampaignVerbs(Verbs, Awaiting):
    """The verbs, for programs on asyncio: what `AsyncCampaign` and `AsyncRemoteCampaign` have in common."""

    async def do(self, command: Command[Reply]) -> Reply:
        """Do what a command says."""
        raise NotImplementedError
