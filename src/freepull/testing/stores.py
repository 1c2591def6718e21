"""A conformance kit for stores: whether one keeps the promises of `freepull.campaigns.stores.base`.

``check_store(make)`` runs everything; `STORE_CHECKS` has the checks by name, to be run one at a time.
``make`` opens the store and is called several times: every time the same data must be there. What a service needs
beside campaigns, `freepull.campaigns.stores.serving`, is checked as far as the store has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

from freepull.campaigns.journal.events import KEYS, TABLES, Row
from freepull.campaigns.stores import Store
from freepull.campaigns.stores.serving import LeaseStore, ReplyStore, StoredReply, StoredToken, TokenNote, TokenStore
from freepull.errors import CampaignBusy, CampaignExists, Fenced, StoreError, UnknownCampaign

Make = Callable[[], Store]

ROWS: dict[str, list[Row]] = {
    "segments": [(0, 0, 2, b"\x00first\xff"), (1, 2, 1, b"")],
    "offers": [(1, 0, 2, 1, 10, 20, 0, None, None, None), (2, 1, 0, 1, 11, 21, 1, "cancelled", 12, 7)],
    "ledger": [(1, 7, 0, 2, 50, "EUR", 10), (2, 9, 1, 0, 10**15, "JPY", 11)],
    "settlements": [(1, "sent", 12, "bank", "", 1), (2, "open", 13, "", "Ünïcödé 漢字", 0)],
    "bans": [(1, 0, 7, 1, 1 << 62, 10, None)],
    "audit": [(0, 5, "", "created", '{"name":"é 漢"}'), (3, 6, "ops", "paused", "{}")],
    "names": [(0, "ann"), (1, "Ünïcödé 漢字")],
    "event_ids": [(bytes(16), 1, b"r" * 24, 10), (b"\xff" * 16, 2, b"s" * 24, 11)],
    "snapshots": [(2, 0, 2, b"a" * 100), (2, 1, 2, b"b"), (5, 0, 3, b"c")],
    "webhooks": [("backend", 7, 1, 2, ""), ("other", 0, 0, 0, "budget")],
}
"""Rows of every kind, in the order of their keys."""


def check_store(make: Make) -> None:
    """Run all checks; an AssertionError names the first promise that is not kept."""
    for name, check in STORE_CHECKS.items():
        try:
            check(make)
        except Exception as error:
            raise AssertionError(f"the store does not keep a promise: {name} ({error!r}).") from error


@contextmanager
def _refused(kind: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}.")


def _all(store: Store, name: str) -> dict[str, list[Row]]:
    return {table: list(store.read(name, table)) for table in TABLES}


def _name() -> str:
    return f"check {uuid4().hex}"


def rows_come_back_as_they_were(make: Make) -> None:
    """Every value of every table, in the order of the key, after any key, also after reopening."""
    name = _name()
    with closing(make()) as store:
        assert name not in store.campaigns()
        lease = store.create(name, "a", {table: rows[:1] for table, rows in ROWS.items()})
        store.write(lease, {table: list(reversed(rows[1:])) for table, rows in ROWS.items()})
        assert name in store.campaigns()
        assert store.campaigns() == sorted(store.campaigns())
        store.release(lease)
    with closing(make()) as store:
        assert _all(store, name) == ROWS
        for table, rows in ROWS.items():
            for i, row in enumerate(rows):
                assert list(store.read(name, table, row[: KEYS[table]])) == rows[i + 1 :]
            assert store.before_last(name, table, len(rows)) == ()
            if len(rows) > 1:
                assert store.before_last(name, table, 1) == rows[-2][: KEYS[table]]
        assert store.totals(name) == (2, 50 + 10**15)
        assert store.snapshots(name) == [(2, 2, 2), (5, 1, 3)]


def names_of_campaigns_are_unique(make: Make) -> None:
    """Create refuses a name that is taken; whatever needs a campaign refuses one that is not there."""
    name = _name()
    with closing(make()) as store:
        store.create(name, "a", {})
        with _refused(CampaignExists, "creating a campaign twice"):
            store.create(name, "a", {"names": [(0, "ann")]})
        assert list(store.read(name, "names")) == []
        with _refused(UnknownCampaign, "claiming a campaign that is not there"):
            store.claim(_name(), "a")
        with _refused(UnknownCampaign, "reading a campaign that is not there"):
            list(store.read(_name(), "audit"))


def campaigns_do_not_mix(make: Make) -> None:
    """Rows of one campaign are not seen from another."""
    one, other = _name(), _name()
    with closing(make()) as store:
        store.create(one, "a", ROWS)
        lease = store.create(other, "a", {})
        assert _all(store, other) == {table: [] for table in TABLES}
        assert store.find_events(lease, [bytes(16)]) == {}
        assert store.totals(other) == (0, 0)
        store.erase_names(lease, None)
        assert store.remove(lease, "event_ids", "at", 1 << 60, 10) == 0
        assert _all(store, one) == ROWS


def a_write_is_all_or_nothing(make: Make) -> None:
    """A row that is there already refuses all rows of the write; segments and payments exist once."""
    name = _name()
    with closing(make()) as store:
        lease = store.create(name, "a", ROWS)
        for table, row in (("segments", (1, 2, 1, b"x")), ("ledger", (3, 9, 0, 0, 1, "EUR", 0)), ("names", (2, "ann"))):
            with _refused(StoreError, f"a second row in {table}"):
                store.write(lease, {"audit": [(9, 9, "", "x", "{}")], table: [row]})
            assert _all(store, name) == ROWS


def rows_that_change_replace_their_like(make: Make) -> None:
    """Offers, settlements, bans, parts of snapshots and places of webhooks are written again under the same key."""
    name = _name()
    ended: dict[str, list[Row]] = {
        "offers": [(1, 0, 2, 1, 10, 20, 0, "paid", 15, None)],
        "settlements": [(1, "settled", 14, "bank", "tr 9", 1)],
        "bans": [(1, 0, 7, 1, 1 << 62, 10, 99)],
        "snapshots": [(5, 0, 3, b"d")],
        "webhooks": [("backend", 9, 2, 2, "")],
    }
    with closing(make()) as store:
        lease = store.create(name, "a", ROWS)
        store.write(lease, ended)
        for table, (row,) in ended.items():
            key = row[: KEYS[table]]
            assert [it for it in store.read(name, table) if it[: KEYS[table]] == key] == [row]
            assert len(list(store.read(name, table))) == len(ROWS[table])


def an_old_lease_writes_nothing(make: Make) -> None:
    """After a new claim the older lease is fenced, whatever it tries."""
    name = _name()
    with closing(make()) as store:
        old = store.create(name, "a", ROWS)
        new = store.claim(name, "a")
        assert new.epoch > old.epoch
        acts: list[Callable[[], object]] = [
            lambda: store.write(old, {"segments": [(2, 3, 1, b"x")]}),
            lambda: store.renew(old),
            lambda: store.remove(old, "event_ids", "at", 1 << 60, 10),
            lambda: store.erase_names(old, None),
        ]
        for act in acts:
            with _refused(Fenced, "an old lease"):
                act()
        assert not old.holds
        store.release(old)
        store.write(new, {"segments": [(2, 3, 1, b"y")]})
        assert new.holds
        assert list(store.read(name, "segments"))[2:] == [(2, 3, 1, b"y")]


def one_owner_at_a_time(make: Make) -> None:
    """A second owner is refused until the first lets go or its lease has run out; then the first is fenced."""
    name = _name()
    with closing(make()) as store:
        lease = store.create(name, "a", {})
        try:
            second = make()
        except CampaignBusy:  # one process at a time: nobody else can even open it
            return
        with closing(second):
            with _refused(CampaignBusy, "a second owner"):
                second.claim(name, "b")
            store.release(lease)
            assert not lease.holds
            taken = second.claim(name, "b")
            with _refused(CampaignBusy, "the first owner, while the second has it"):
                store.claim(name, "a")
            limit = time.monotonic() + 2 * taken.seconds + 10
            while time.monotonic() < limit:
                try:
                    again = store.claim(name, "a")
                    break
                except CampaignBusy:
                    assert taken.holds or time.monotonic() < limit
                    time.sleep(0.05)
            assert not taken.holds, "a lease must not be given away while its holder may still think it holds"
            with _refused(Fenced, "an owner whose lease ran out and was taken"):
                second.renew(taken)
            store.renew(again)


def event_ids_are_found_and_forgotten(make: Make) -> None:
    """Known ids with their event and record; old rows go, some at a time."""
    name = _name()
    ids = [i.to_bytes(16, "big") for i in range(50)]
    with closing(make()) as store:
        rows = [(key, i, bytes([i]) * 24, 100 + i) for i, key in enumerate(ids)]
        lease = store.create(name, "a", {"event_ids": rows})
        found = store.find_events(lease, [ids[3], b"?" * 16, ids[49]])
        assert found == {ids[3]: (3, b"\x03" * 24), ids[49]: (49, b"1" * 24)}
        assert store.find_events(lease, []) == {}
        assert [store.remove(lease, "event_ids", "at", 125, 10) for _ in range(4)] == [10, 10, 5, 0]
        assert [row[1] for row in store.read(name, "event_ids")] == list(range(25, 50))


def names_are_erased(make: Make) -> None:
    """Some names, or all of them."""
    name = _name()
    with closing(make()) as store:
        lease = store.create(name, "a", {"names": [(i, f"agent {i}") for i in range(5)]})
        store.erase_names(lease, [1, 3, 99])
        assert [row[0] for row in store.read(name, "names")] == [0, 2, 4]
        store.erase_names(lease, None)
        assert list(store.read(name, "names")) == []


def large_rows_and_many_rows_are_read(make: Make) -> None:
    """Megabytes in a row, thousands of rows in a table."""
    name = _name()
    large: list[Row] = [(i, i, 1, bytes([i]) * (1 << 20)) for i in range(6)]
    many: list[Row] = [(i, f"agent {i}") for i in range(25_000)]
    with closing(make()) as store:
        lease = store.create(name, "a", {"segments": large})
        store.write(lease, {"names": iter(many)})
        assert list(store.read(name, "segments")) == large
        assert list(store.read(name, "names")) == many


def threads_may_share_it(make: Make) -> None:
    """Readers and a writer at the same time; readers see whole writes."""
    name = _name()
    with closing(make()) as store:
        lease = store.create(name, "a", {})
        wrong: list[object] = []

        def look() -> None:
            try:
                for _ in range(20):
                    names, audits = len(list(store.read(name, "names"))), len(list(store.read(name, "audit")))
                    if audits < names:
                        wrong.append((names, audits))
            except Exception as error:
                wrong.append(error)

        readers = [threading.Thread(target=look) for _ in range(4)]
        for reader in readers:
            reader.start()
        for i in range(50):
            store.write(lease, {"names": [(i, f"agent {i}")], "audit": [(i, i, "", "x", "{}")]})
        for reader in readers:
            reader.join()
        assert wrong == []


def holders_are_told(make: Make) -> None:
    """Who has a campaign, in the order of names; whoever asks for one that is not there learns nothing."""
    names = sorted([_name(), _name()])
    with closing(make()) as store:
        if not isinstance(store, LeaseStore):
            return
        first, second = (store.create(name, f"owner of {name}", {}) for name in names)
        mine = [it for it in store.holders() if it.campaign in names]
        assert [(it.campaign, it.owner) for it in mine] == [(name, f"owner of {name}") for name in names]
        assert [it[:3] for it in store.holders(names[1])] == [it[:3] for it in mine[1:]]
        assert store.holders(_name()) == []
        assert mine[0].held == (first.seconds != float("inf"))
        assert all(it.left is None or 0.0 <= it.left <= first.seconds for it in mine)
        store.release(first)
        (free,) = store.holders(names[0])
        assert (free.owner, free.held) == ("", False)
        store.release(second)


def tokens_are_kept_and_end_once(make: Make) -> None:
    """Tokens come back as they were, with the first time at which they were revoked, and notes of all that; a secret
    is made once."""
    one, other = _name(), _name()
    kept = StoredToken(one, b"\x00\xff" * 16, "read", "a campaign", "Ünï", 10, 20)
    lasting = StoredToken(other, b"h" * 32, "operator", "", "", 11)
    made, also = (TokenNote(it.made, "ann", "made", it.id, it.scope, it.campaign, it.label) for it in (kept, lasting))
    ended = made._replace(at=15, action="revoked")
    agents = TokenNote(12, "", "made", "", "agent", one, "", "0-4, 7")
    with closing(make()) as store:
        if not isinstance(store, TokenStore):
            return
        store.add_token(kept, made)
        store.add_token(lasting, also)
        store.add_note(agents)
        assert store.secret(one, b"first \x00") == b"first \x00"
        store.revoke_token(one, ended)
        store.revoke_token(one, ended._replace(at=16))
        assert (one, 3) not in store.versions()
        for _ in range(2):
            store.raise_version(one, 3, agents)
    with closing(make()) as store:
        assert isinstance(store, TokenStore)
        found = {it.id: it for it in store.tokens()}
        assert (found[one], found[other]) == (kept._replace(revoked=15), lasting)
        notes = store.token_notes(0, 1 << 30)
        mine = [it for it in notes if it[1] in (made, also, agents, ended, ended._replace(at=16))]
        assert [it for _, it in mine] == [made, also, agents, ended, agents, agents]
        assert store.token_notes(mine[1][0], 2) == mine[2:4]
        assert store.secret(one, b"second") == b"first \x00"
        assert {agent: version for (campaign, agent), version in store.versions().items() if campaign == one} == {3: 2}


def replies_are_kept_for_a_while(make: Make) -> None:
    """The first reply under an id counts, until it is too old; then it is forgotten."""
    id, late = uuid4().bytes, 1 << 40
    first, second = StoredReply(b"r" * 32, 201, b'{"a": 1}'), StoredReply(b"s" * 32, 200, b"")
    with closing(make()) as store:
        if not isinstance(store, ReplyStore):
            return
        assert store.find_reply(id, 0) is None
        store.keep_reply(id, first, 1000, 0)
        store.keep_reply(id, second, 1001, 0)
    with closing(make()) as store:
        assert isinstance(store, ReplyStore)
        assert store.find_reply(id, 1000) == first
        assert store.find_reply(id, 1001) is None
        store.keep_reply(uuid4().bytes, second, late, 1001)
        assert store.find_reply(id, 0) is None


STORE_CHECKS: dict[str, Callable[[Make], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        rows_come_back_as_they_were,
        names_of_campaigns_are_unique,
        campaigns_do_not_mix,
        a_write_is_all_or_nothing,
        rows_that_change_replace_their_like,
        an_old_lease_writes_nothing,
        one_owner_at_a_time,
        event_ids_are_found_and_forgotten,
        names_are_erased,
        large_rows_and_many_rows_are_read,
        threads_may_share_it,
        holders_are_told,
        tokens_are_kept_and_end_once,
        replies_are_kept_for_a_while,
    )
}
