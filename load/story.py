"""A team's story over real HTTP, from a log of stars to the last payment; what must hold is checked at the end.

Plan from a log, create, people through a gateway with outcomes hours or days late, webhooks to a receiver that fails,
payouts through a payer that fails, a certified verdict, and `verify` to the cent. An hour of the story takes no time.
"""

from __future__ import annotations

import csv
import heapq
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import freepull as fp
from chaos.payouts import impatient, payer_at
from chaos.receiving import SECRET, receiving
from freepull.campaigns.journal.recovery import verify
from freepull.server.auth import Tokens

from .traffic import Process

NAME, SCALE, STARS = "slots", "1..5", 4
"""The campaign, its scale, and by how many stars the best is above the worst."""
FAILS, LOST, MOST_DELAY = 5, 0.02, 48
"""One in so many webhooks is refused; the share of outcomes that never come; and hours until the others do, at most."""
BONUS = 50


@dataclass
class Story:
    """How it went."""

    people: int = 0
    acts: int = 0
    outcomes: int = 0
    late: float = 0.0
    """Hours between an act and its outcome, on average."""
    paid: int = 0
    webhooks: int = 0
    planned: str = ""
    arm: str = ""
    problems: list[str] = field(default_factory=list)

    def demand(self, holds: bool, problem: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.problems.append(problem)

    def __str__(self) -> str:
        told = f"{self.people} people, {self.acts:,} acts, outcomes {self.late:.0f} h later, {self.webhooks:,} webhooks"
        end = "; ".join(self.problems) or f"{self.arm} certified, {self.paid:,} bonuses paid out, verify to the cent"
        return f"{told}: {end}"


@dataclass
class Person:
    """Somebody who comes now and then, learns what is good, and takes most offers."""

    name: str
    means: list[float]
    often: float
    """Acts an hour."""
    reluctant: bool
    mind: fp.agents.AlphaUCB = field(default_factory=fp.agents.AlphaUCB)
    acts: int = 0

    def stars(self, arm: int, chance: random.Random) -> int:
        """Draw what it gives an arm."""
        return 1 + sum(chance.random() < self.means[arm] for _ in range(STARS))


def crowd(people: int, means: list[float], chance: random.Random, often: float) -> list[Person]:
    """Draw people like those on the street: they differ, come log-normally often, and some refuse."""
    made = []
    for number in range(people):
        own = [min(0.99, max(0.01, chance.gauss(mean, 0.1))) for mean in means]
        person = Person(f"user-{number}", own, often * chance.lognormvariate(0.0, 0.8), chance.random() < 0.2)
        person.mind.start(len(means), number)
        made.append(person)
    return made


def write_log(path: Path, means: list[float], chance: random.Random, people: int, visits: int) -> None:
    """Write what a team has from before: who gave how many stars to what, and when; others than those of the trial."""
    begun = datetime(2026, 5, 1)
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["user_id", "slot", "stars", "when"])
        for person in crowd(people, means, chance, 0.02):
            for _ in range(visits):
                arm, at = chance.randrange(len(means)), begun + timedelta(hours=chance.uniform(0, 720))
                rows.writerow([f"past-{person.name}", "ABCDEF"[arm], person.stars(arm, chance), f"{at:%Y-%m-%dT%H:%M}"])


@contextmanager
def paying(file: Path) -> Iterator[str]:
    """Serve a payer that fails, hangs, cuts the line and refuses."""
    server = payer_at(file)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/pay"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def story(
    url: str, folder: Path, people: int = 500, means: tuple[float, ...] = (0.6, 0.5, 0.45, 0.4), days: int = 60,
    often: float = 0.5 / 24, seed: int = 1, epsilon: float = 0.02,
) -> Story:  # fmt: skip
    """Tell the story on a new store; return what came of it."""
    found, chance = Story(people), random.Random(seed)
    write_log(folder / "stars.csv", list(means), chance, max(20, people // 5), max(8, round(720 * often)))
    columns = "agent=user_id,arm=slot,reward=stars,at=when"
    plan = fp.plan(
        log=folder / "stars.csv", scale=SCALE, columns=columns, agents=people, horizon=10 * days, price="0.50 EUR",
        epsilon=epsilon, quick=True, seed=seed, progress=False,
    )  # fmt: skip
    assert plan.forecast is not None
    found.planned = plan.sentences[0]
    budget = plan.price.times(max(4 * plan.forecast.quantile(0.95), 5.0 * people)) if plan.price else None
    tokens = Tokens(url)
    admin, gateway, payer = (tokens.new(scope)[0] for scope in ("admin", "gateway", "payer"))
    tokens.close()
    with receiving(folder) as (receiver, target), paying(folder / "transfers") as address:
        receiver.answer = lambda number: 500 if number % FAILS == 0 else 200
        hooks = folder / "hooks.toml"
        hooks.write_text(f'[backend]\nurl = "{target.url}"\nsecret_files = ["secret"]\nprivate = true\n')
        (folder / "secret").write_text(SECRET)
        process = Process(url, "--webhooks", str(hooks), "--agent-rate", "1000000")
        try:
            with fp.Client(process.address, admin) as client:
                campaign = client.create(
                    name=NAME, arms=list("ABCDEF"[: len(means)]), agents=[f"user-{m}" for m in range(people)],
                    price="0.50 EUR", budget=str(budget), scale=SCALE, horizon=max(8, round(24 * days * often)),
                    principal=fp.Principal(
                        fp.rules.Comparisons(0.05, epsilon=epsilon), observe=fp.observe.Steps(0), offers="each",
                        protocol=fp.protocols.NeverBan(),
                    ),
                )  # fmt: skip
                campaign.start()
                with fp.Client(process.address, gateway) as backend:
                    people_of = crowd(people, list(means), chance, often)
                    live(backend.campaign(NAME), campaign, people_of, days, chance, found)
                with fp.Client(process.address, payer) as nightly:
                    pay_out(nightly.campaign(NAME), address)
                check(found, campaign, folder / "transfers", "ABCDEF"[means.index(max(means))])
                last = campaign.status()
                settled = last.paid  # the last thing that is told
                receiver.wait(lambda: len(_settled(receiver.events)) >= settled, 60.0)
        finally:
            code = process.end()
    found.demand(code == 0, f"the service ended with {code}")
    heard = [it["id"] for it in receiver.events]
    found.webhooks = len(heard)
    found.demand(len(set(heard)) == len(heard), "an event was told twice to a receiver that took it")
    order = [it["event"] for it in receiver.events]
    found.demand(order == sorted(order), "webhooks came out of order")
    kinds = Counter(it["kind"] for it in receiver.events)
    found.demand(kinds["paid"] == last.paid, f"{kinds['paid']} payments were told of {last.paid}")
    found.demand(kinds["decided"] == 1, "the verdict was not told once")
    report = verify(url, NAME)
    found.demand(report.spent == last.spent, f"verify has {report.spent}, the status {last.spent}")
    found.demand(report.spent.minor == BONUS * last.paid, f"{last.paid} bonuses are not {report.spent}")
    found.demand(report.observations == last.observations == found.acts, "pulls are not those that were made")
    return found


def _settled(events: list[dict[str, object]]) -> set[object]:
    return {it["entry"] for it in events if it["kind"] == "settled" and it["settlement"] == "settled"}


def live(
    campaign: fp.RemoteCampaign, seen: fp.RemoteCampaign, people: list[Person], days: int, chance: random.Random,
    found: Story,
) -> None:  # fmt: skip
    """Let hours pass until it is decided: people ask, accept, act; outcomes come hours or days later, in any order."""
    arms = list("ABCDEF"[: len(people[0].means)])
    coming: list[tuple[int, int, Person, int, str, int]] = []
    delays = 0
    for hour in range(24 * days):
        for person in people:
            if chance.random() >= person.often:
                continue
            offer, event = campaign.ask(person.name), f"{person.name}:{person.acts}"
            takes = offer is not None and not (person.reluctant and chance.random() < 0.3)
            arm = arms.index(offer.arm) if offer is not None and takes else person.mind.pick(person.acts + 1)
            if offer is not None and takes and chance.random() < 0.5:
                campaign.accept(person.name, offer=offer.id)
            told = campaign.act(person.name, arms[arm], event)
            found.demand((told.outcome == "paid") == (offer is not None and offer.arm == arms[arm]), f"{event}: {told}")
            person.acts += 1
            found.acts += 1
            if chance.random() >= LOST:
                due = hour + chance.randint(1, MOST_DELAY)
                heapq.heappush(coming, (due, found.acts, person, arm, event, person.stars(arm, chance)))
                delays += due - hour
        while coming and coming[0][0] <= hour:
            _, _, person, arm, event, stars = heapq.heappop(coming)
            campaign.outcome(person.name, event, stars)
            person.mind.learn(arm, (stars - 1) / STARS)
            found.outcomes += 1
        if hour % 24 == 23 and seen.status().decided:
            break
    while coming:  # what is still on its way
        _, _, person, arm, event, stars = heapq.heappop(coming)
        campaign.outcome(person.name, event, stars)
        found.outcomes += 1
    found.late = delays / max(found.outcomes, 1)


def pay_out(campaign: fp.RemoteCampaign, address: str) -> None:
    """Pay everybody, night after night, whatever the payer does."""
    for _ in range(100):
        with suppress(fp.errors.ServiceError):  # it was silent for too long
            if fp.payout(campaign, impatient(address), failed=True).complete:
                return


def check(found: Story, campaign: fp.RemoteCampaign, transfers: Path, best: str) -> None:
    """Compare what the service says with what the payer did."""
    verdict, ledger = campaign.verdict(), campaign.ledger()
    found.arm, found.paid = verdict.arm or "", len(ledger)
    found.demand(verdict.certified, f"no certified verdict: {verdict.why}")
    found.demand(verdict.arm == best, f"{verdict.arm} was named, and {best} is best")
    found.demand(verdict.scale == SCALE, "the verdict is not in stars")
    found.demand({it.settlement for it in ledger} <= {"settled"}, "not everybody was paid")
    done = [json.loads(line) for line in transfers.read_text().splitlines()] if transfers.exists() else []
    found.demand(sorted(entry for _, entry, _ in done) == [it.entry for it in ledger], "not everybody was paid once")
    found.demand(sum(minor for _, _, minor in done) == campaign.status().spent.minor, "the payer paid another sum")
    found.demand(bool(ledger), "nobody was paid, so nothing was tried")
