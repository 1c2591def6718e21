"""Payouts: what became of payments is durable and moves one way; payers pay everybody, and nobody twice."""

from __future__ import annotations

import asyncio
import gzip
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import freepull as fp
from chaos.payouts import impatient, payer_at
from freepull import errors
from freepull.campaigns.files import copy, restore
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.view import CampaignView
from freepull.messages import Move
from freepull.money import Money
from freepull.payouts import Payment, Receipt, read_payments
from support.program import inside
from support.staging import Clock, contents, create, picture, reopen

DATA = Path(__file__).parent / "data"
RELEASE = Path(__file__).parents[1] / "golden" / "releases" / "0.1.tar.gz"


def earn(campaign: fp.Campaign, *agents: str) -> None:
    for name in agents or ("ann", "bob", "cy"):
        offer = campaign.ask(name)
        assert offer is not None
        assert campaign.tell(name, offer.arm, 0.5).paid == Money(50, "EUR")


def states(campaign: fp.Campaign) -> list[str]:
    return [it.settlement for it in campaign.ledger()]


class Scripted:
    """A payer that says what it is told to, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, **say: str) -> None:
        self.say, self.asked = say, list[str]()

    def pay(self, payments: Sequence[Payment]) -> Iterator[Receipt]:
        for it in payments:
            self.asked.append(it.key)
            yield Receipt(it.entry, self.say.get(it.agent, "settled"), f"for {it.entry}")


def test_an_entry_is_open_until_something_is_said_and_then_moves_one_way(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    earn(campaign)
    assert states(campaign) == ["open"] * 3
    assert campaign.settle([Move(1, "sent"), Move(2, "sent")], payer="bank", by="nightly") == 2
    assert campaign.settle([Move(1, "sent")], payer="bank") == 0  # safe to repeat
    assert campaign.settle([Move(1, "settled", "tr 1"), Move(2, "failed", "no account")], payer="bank") == 2
    campaign = reopen(campaign, url, clock)
    first, second, third = campaign.ledger()
    assert (first.settlement, first.payer, first.note, first.moved) == ("settled", "bank", "tr 1", first.at)
    assert (second.settlement, second.note, third.settlement, third.moved) == ("failed", "no account", "open", None)
    for move, payer in ((Move(1, "failed"), "bank"), (Move(1, "open"), ""), (Move(1, "sent"), "bank")):
        with pytest.raises(errors.WrongMoment, match="entry 1 is settled"):
            campaign.settle([Move(3, "sent"), move], payer=payer)
    assert states(campaign) == ["settled", "failed", "open"]  # all or none
    assert [it.entry for it in campaign.ledger(settlement="unsettled")] == [2, 3]
    assert [it.entry for it in campaign.ledger(settlement="settled")] == [1]
    assert campaign.status().settled == 1
    noted = [it.detail for it in campaign.audit() if "settlements" in it.detail]
    assert noted[0] == {"settlements": {"sent": 2}, "payer": "bank"}
    campaign.close()
    verify(url, "onboarding")


def test_what_one_payer_has_sent_no_other_one_sends(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    campaign.settle([Move(1, "sent")], payer="bank")
    with pytest.raises(errors.WrongMoment, match="entry 1 is sent by bank, so it cannot become sent by wallet;"):
        campaign.settle([Move(1, "sent")], payer="wallet")
    with pytest.raises(errors.WrongMoment):
        campaign.settle([Move(1, "settled")], payer="wallet")
    payer = Scripted()
    found = fp.payout(campaign, payer)
    assert (found.paid, found.left) == ({"settled": 2}, {"sent by another payer": 1})
    assert not found.complete
    campaign.settle([Move(1, "settled")])  # somebody has looked, by hand
    assert fp.payout(campaign, payer).complete


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ([Move(0, "sent")], "entry must be"),
        ([Move(4, "sent")], "from 1 to 3 of the ledger, got 4"),
        ([Move(1, "lost")], "state must be one of"),
        ([Move(1, "sent"), Move(1, "settled")], "must name every entry once"),
        ([Move(1, "sent", "x" * 201)], "note must be a printable text"),
    ],
)
def test_a_wrong_move_changes_nothing(sqlite: str, clock: Clock, moves: list[Move], said: str) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    before = contents(campaign)
    with pytest.raises(errors.InvalidInput, match=said):
        campaign.settle(moves)
    assert contents(campaign) == before


def test_an_empty_ledger_has_no_entries_to_settle(sqlite: str, clock: Clock) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^moves must be of entries of the ledger, which is empty, got 1\.$"):
        create(sqlite, clock).settle([Move(1, "sent")])


def test_the_key_stays_until_a_payment_has_failed_and_tells_campaigns_apart(sqlite: str, clock: Clock) -> None:
    campaign, other = create(sqlite, clock), create(sqlite, clock, name="other")
    for it in (campaign, other):
        earn(it, "ann")
    key = campaign.ledger()[0].key
    assert key.endswith("-1")
    assert other.ledger()[0].key != key
    payer = Scripted(ann="failed")
    assert fp.payout(campaign, payer).paid == {"failed": 1}
    assert fp.payout(campaign, payer).left == {"failed before": 1}
    payer.say = {"ann": "sent"}
    for _ in range(2):
        assert fp.payout(campaign, payer, failed=True).paid == {"sent": 1}
    campaign.settle([Move(1, "open")])  # nobody has it any more; the key stays, because it may have arrived
    payer.say = {}
    assert fp.payout(campaign, payer).amounts == {"EUR": 50}
    assert payer.asked == [key, f"{key}-2", f"{key}-2", f"{key}-2"]
    assert fp.payout(campaign, payer).paid == {}


def test_snapshots_copies_backups_and_exports_know_it(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    campaign.settle([Move(1, "sent"), Move(2, "sent"), Move(3, "settled", "tr 3")], payer="bank")
    campaign.settle([Move(2, "failed")], payer="bank")
    campaign.snapshot()
    campaign.settle([Move(1, "settled")], payer="bank")
    before, told = picture(campaign), campaign.ledger()
    campaign = reopen(campaign, sqlite, clock)
    assert (picture(campaign), campaign.ledger()) == (before, told)
    campaign.export(tmp_path / "ledger.csv", "ledger")
    frame = pl.read_csv(tmp_path / "ledger.csv")
    assert frame["key"].to_list() == [it.key for it in told]
    assert frame["settlement"].to_list() == ["settled", "failed", "settled"]
    campaign.backup(tmp_path / "copy.db")
    campaign.close()
    assert verify(sqlite, "onboarding").snapshots == 1
    assert copy(sqlite, f"sqlite:///{tmp_path}/other.db", "onboarding")["settlements"] == 3
    restore(sqlite, tmp_path / "copy.db")
    for where in (sqlite, f"sqlite:///{tmp_path}/other.db"):
        with fp.Campaign.open(where, "onboarding", clock=clock) as again:
            assert again.ledger() == told
            assert picture(again) == before


def test_a_settlement_that_was_changed_by_hand_is_found(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    campaign.settle([Move(1, "settled")])
    store = campaign.core.store
    with store.transaction() as do:  # type: ignore[attr-defined]
        do.run("UPDATE settlements SET state = 'open'")
    with pytest.raises(errors.Corrupt, match="row 1 of settlements"):
        campaign.ledger()
    with store.transaction() as do:  # type: ignore[attr-defined]
        do.run("DELETE FROM settlements")
    campaign.close()
    with pytest.raises(errors.Corrupt, match="the last row of settlements"):
        fp.Campaign.open(sqlite, "onboarding")


def test_a_name_is_not_erased_while_somebody_is_owed(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    earn(campaign, "ann", "bob")
    campaign.settle([Move(1, "sent")], payer="bank")
    before = contents(campaign)
    with pytest.raises(errors.WrongMoment, match=r"^ann must be paid first: 0\.50 EUR in 1 entry .*entry 1 is sent"):
        campaign.erase_names(["ann", "cy"])
    with pytest.raises(errors.WrongMoment, match=r"^ann and 1 other must be paid first: 1\.00 EUR in 2 entries"):
        campaign.erase_names()
    assert contents(campaign) == before
    campaign.settle([Move(1, "settled")], payer="bank")
    campaign.erase_names(["ann", "cy"])
    campaign.erase_names(["bob"], anyway=True)
    assert contents(campaign)["names"] == []


def test_a_name_is_not_erased_while_a_bonus_waits_for_an_outcome(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, pay_on="outcome", if_no_outcome=0.0)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.act("ann", offer.arm, "v1")
    for names in (["ann"], None):
        with pytest.raises(errors.WrongMoment, match="ann must be told of first: 1 bonus waits for the outcomes"):
            campaign.erase_names(names)
    campaign.erase_names(["bob"])
    campaign.outcome("ann", "v1", 0.5)
    fp.payout(campaign, Scripted())
    campaign.erase_names(["ann"])
    assert [name for _, name in contents(campaign)["names"]] == ["cy"]


def test_nothing_is_paid_out_of_a_rehearsal_or_twice_after_an_upgrade(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "old.db").write_bytes(gzip.decompress((DATA / "campaigns-0.1.db.gz").read_bytes()))
    payer = Scripted()
    with (
        fp.Campaign.open(f"sqlite:///{tmp_path}/old.db", "rehearsed", clock=clock) as campaign,
        pytest.raises(errors.WrongMoment, match="is a rehearsal, so nobody is paid"),
    ):
        fp.payout(campaign, payer)
    with tarfile.open(RELEASE) as kept:
        kept.extract("campaigns.db", tmp_path, filter="data")
    url = f"sqlite:///{tmp_path}/campaigns.db"
    with fp.Campaign.open(url, "pairwise", clock=clock) as campaign:
        owed = len(campaign.ledger())
        assert owed == 12
        with pytest.raises(errors.WrongMoment, match="is from before freepull kept settlements"):
            fp.payout(campaign, payer)
        campaign.erase_names([campaign.ledger()[0].agent])  # as before: nobody can say what is owed
        campaign.settle([Move(it, "settled", "by the old script") for it in range(1, owed)])
        assert fp.payout(campaign, payer).paid == {"settled": 1}
    assert payer.asked[0].endswith(f"-{owed}")
    verify(url, "pairwise")


class Slow:
    """A payer that refuses first keys, if told to, and lets something happen before it does anything."""

    name = "bank"

    def __init__(self, paid: list[str], refuses: bool = False, before: Callable[[], object] = list) -> None:
        self.paid, self.refuses, self.before = paid, refuses, before
        self.dies = False

    def pay(self, payments: Sequence[Payment]) -> Iterator[Receipt]:
        self.before()
        for it in payments:
            if self.refuses and it.key.count("-") == 1:
                yield Receipt(it.entry, "failed")
                continue
            self.paid.append(it.key)
            if self.dies:
                raise KeyboardInterrupt
            yield Receipt(it.entry, "settled")


def test_a_run_that_is_late_does_not_fail_what_another_one_has_sent_since(sqlite: str, clock: Clock) -> None:
    campaign, paid = create(sqlite, clock), list[str]()
    earn(campaign, "ann")

    def others() -> None:
        """Hear that the first key has failed, send the second one, and be killed once it is paid."""
        fp.payout(campaign, Slow(paid, refuses=True))
        dying = Slow(paid)
        dying.dies = True
        with pytest.raises(KeyboardInterrupt):
            fp.payout(campaign, dying, failed=True)

    with pytest.raises(errors.WrongMoment, match=r"entry 1 has the key .*-1-2 by now, and not .*-1, which has failed"):
        fp.payout(campaign, Slow(paid, refuses=True, before=others))
    assert fp.payout(campaign, Slow(paid)).paid == {"settled": 1}
    assert len(set(paid)) == 1  # however often it was sent


def test_nothing_is_sent_with_a_key_that_has_failed_since_the_ledger_was_read(sqlite: str, clock: Clock) -> None:
    campaign, paid = create(sqlite, clock), list[str]()
    earn(campaign, "ann")
    (entry,) = campaign.ledger()
    fp.payout(campaign, Slow(paid, refuses=True))
    with pytest.raises(errors.WrongMoment, match="read the ledger again"):
        campaign.settle([Move(1, "sent", key=entry.key)], payer="wallet")
    assert campaign.settle([Move(1, "failed", key=entry.key)], payer="bank") == 0  # it is
    assert campaign.settle([Move(1, "sent", key=f"{entry.key}-2")], payer="wallet") == 1
    assert (paid, states(campaign)) == ([], ["sent"])


def test_what_a_payer_has_said_is_noted_also_if_it_says_something_odd_afterwards(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    with pytest.raises(errors.UnknownName, match="the state of a receipt of scripted must be one of settled, failed"):
        fp.payout(campaign, Scripted(bob="done"))
    assert states(campaign) == ["settled", "sent", "sent"]


@pytest.mark.parametrize(
    "url",
    [
        "http://pay.example/",
        "https://",
        "https://[::1",
        "https://ann:pw@b.example/",
        "https://x:99999/",
        "https://a..b",
    ],
)
def test_a_payer_s_address_is_looked_at_before_anything_is_sent(url: str) -> None:
    with pytest.raises(errors.InvalidInput, match="url must begin with https://") as refused:
        fp.HttpPayer(url)
    assert "pw" not in str(refused.value)


def test_a_file_payer_writes_every_payment_into_one_file(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock, agents=["=1+1", "bob", "cy"])
    earn(campaign, "=1+1", "bob")
    (tmp_path / "files").mkdir()
    payer = fp.FilePayer(tmp_path / "files")
    assert fp.payout(campaign, payer).paid == {"sent": 2}
    (first,) = payer.files()
    assert "'=1+1" in first.read_text()
    for _ in range(2):  # also by another process, which knows the folder
        fp.payout(campaign, fp.FilePayer(tmp_path / "files"))
    assert payer.files() == [first]
    earn(campaign, "cy")
    fp.payout(campaign, payer)
    keys = [row["key"] for path in payer.files() for row in read_payments(path)]
    assert keys == [it.key for it in campaign.ledger()]
    payer.files()[0].unlink()  # it never reached anybody: what it had is written again
    fp.payout(campaign, payer)
    keys = [row["key"] for path in payer.files() for row in read_payments(path)]
    assert sorted(keys) == sorted(it.key for it in campaign.ledger())
    with pytest.raises(errors.InvalidInput, match="folder must be a folder that exists"):
        fp.FilePayer(tmp_path / "none")


def test_a_file_is_settled_without_those_of_its_payments_that_have_failed(
    sqlite: str, clock: Clock, tmp_path: Path
) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    payer = fp.FilePayer(tmp_path)
    fp.payout(campaign, payer)
    campaign.close()
    (file,) = payer.files()
    settle = ["campaign", "settle", sqlite, "onboarding"]
    assert inside(*settle, "failed", "--entries", "2").stdout == "1 payments are failed now; 0 were before\n"
    told = inside(*settle, "settled", "--file", str(file))
    said = "2 payments are settled now; 0 were before; 1 are left out, which have failed since the file was written\n"
    assert " ".join(told.stdout.split()) == said.strip()
    campaign = reopen(campaign, sqlite, clock)
    assert states(campaign) == ["settled", "failed", "settled"]
    campaign.close()
    file.write_text(file.read_text().replace(",2,bob", ",3,bob"))
    assert "has no payment" in inside(*settle, "settled", "--file", str(file)).stderr


@pytest.fixture
def paying(tmp_path: Path) -> Iterator[str]:
    """A payer that fails, hangs, cuts the line and refuses; with one key it pays once."""
    server = payer_at(tmp_path / "transfers", seed=3)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/pay"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_a_payer_that_fails_repeats_and_times_out_pays_everybody_once(
    url: str, clock: Clock, tmp_path: Path, paying: str
) -> None:
    campaign = create(url, clock, agents=40, principal=fp.Principal(
        fp.rules.Population(0.01, pulls=10**6), observe=fp.observe.Steps(0), offers="each"
    ))  # fmt: skip
    for _ in range(3):
        for agent in range(40):
            offer = campaign.ask(agent)
            if offer is not None:
                campaign.tell(agent, offer.arm, 0.5)
    for _ in range(20):
        with suppress(errors.ServiceError):  # it was silent three times in a row
            if fp.payout(campaign, impatient(paying), failed=True).complete:
                break
    done = [json.loads(line) for line in (tmp_path / "transfers").read_text().splitlines()]
    entries = [it.entry for it in campaign.ledger()]
    assert len(entries) > 60
    assert sorted(entry for _, entry, _ in done) == entries
    assert {*states(campaign)} == {"settled"}
    assert any(key.count("-") == 2 for key, _, _ in done)  # some had failed for good at first


@pytest.mark.slow
def test_a_wrong_address_is_said_and_leaves_payments_to_be_sent_again(sqlite: str, clock: Clock, paying: str) -> None:
    campaign = create(sqlite, clock)
    earn(campaign)
    closed = fp.HttpPayer("http://127.0.0.1:9/pay", tries=1)
    with pytest.raises(errors.ServiceError, match="gave no answer that counts to 3 payments, which stay sent"):
        fp.payout(campaign, closed)
    assert states(campaign) == ["sent"] * 3
    with pytest.raises(errors.InvalidInput, match="url must begin with https://"):
        fp.HttpPayer("http://pay.example/v1")


def test_the_last_entries_in_a_state_are_found_among_all_of_them(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    earn(campaign)
    campaign.settle([Move(1, "sent"), Move(2, "settled")], payer="bank")
    view = CampaignView(campaign.core)
    assert [it.entry for it in asyncio.run(view.ledger(last=1, settlement="sent"))] == [1]
    assert [it.entry for it in asyncio.run(view.ledger(last=1))] == [3]
