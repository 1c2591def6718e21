"""Webhooks: signed, at least once, in the log's order, again after failures and from any event, and to nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import freepull as fp
from chaos.receiving import Receiver, receiving
from freepull import errors
from freepull.campaigns.rehearsal import play
from freepull.server import webhooks
from freepull.server.webhooks import Place, Reading, Target, is_public, read_targets
from support.running import Service, is_problem
from support.staging import OPENED, Clock, create


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "FIRST", 0.02)
    monkeypatch.setattr(webhooks, "LOOKING", 0.02)
    monkeypatch.setattr(webhooks, "STUCK", 0.05)


def act(service: Service, path: str, *agents: str) -> None:
    for name in agents:
        offer = service.send("POST", f"{path}/agents/{name}/offer").json()["offer"]
        assert offer is not None
        service.send("POST", f"{path}/agents/{name}/observations", {"arm": offer["arm"], "reward": 0.5})


def caught_up(service: Service) -> Any:
    """Wait until the answer to the last delivery has been read; return how the target stands."""
    for _ in range(1000):
        (row,) = service.send("GET", "/webhooks").json()
        if not row["deliveries"][0]["behind"]:
            break
    return row


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_what_happens_is_told_signed_and_in_the_log_s_order(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    url = f"sqlite:///{tmp_path}/trial.db" if store == "sqlite" else request.getfixturevalue("postgres")
    with receiving(tmp_path) as (receiver, target), Service(url, [target]) as service:
        path = service.create()
        act(service, path, "ann", "bob")
        receiver.wait(lambda: receiver.kinds().count("paid") == 2)
        service.send("POST", f"{path}/pause")
        receiver.wait(lambda: "stuck" in receiver.kinds())
        assert receiver.kinds() == ["started", "offered", "paid", "offered", "paid", "paused", "stuck"]
        assert [it["event"] for it in receiver.events] == sorted(it["event"] for it in receiver.events)
        offered, paid = receiver.events[1:3]
        assert (offered["agent"], offered["bonus"]) == ("ann", {"minor": 50, "currency": "EUR"})
        assert offered["expires"] > offered["at"]
        (entry, _) = service.send("GET", f"{path}/ledger").json()
        assert (paid["agent"], paid["entry"], paid["key"]) == ("ann", 1, entry["key"])
        assert (paid["amount"], paid["offer"]) == (entry["amount"], offered["offer"])
        assert receiver.events[-1]["reasons"][0]["why"] == "paused"
        assert len({it["id"] for it in receiver.events}) == len(receiver.events)
        service.send("POST", f"{path}/ledger/settle", {"moves": [{"entry": 1, "state": "settled"}]})
        service.send("POST", f"{path}/resume")
        receiver.wait(lambda: "unstuck" in receiver.kinds())
        told = next(it for it in receiver.events if it["kind"] == "settled")
        assert (told["entry"], told["settlement"]) == (1, "settled")


@pytest.mark.parametrize("pay_on", ["act", "outcome"])
def test_every_offer_is_told_with_its_end_and_every_payment_with_its_entry(tmp_path: Path, pay_on: str) -> None:
    clock = Clock()
    settings: dict[str, Any] = {
        "pay_on": pay_on,
        "if_no_outcome": 0.0,
        "accept_within": "1 hour",
        "outcome_within": "2 days",
    }
    campaign = create(f"sqlite:///{tmp_path}/trial.db", clock, agents=5, **settings)
    taken = [campaign.ask(m) for m in range(5)]
    for m, offer in enumerate(taken):
        assert offer is not None
        if m in (0, 2):
            campaign.act(m, offer.arm, "v1")
    campaign.tell(1, taken[1].arm, 0.5)  # type: ignore[union-attr]
    campaign.outcome(0, "v1", 0.5)
    campaign.decline(3)
    clock.pass_hours(1.0)  # agent 4 has not accepted in time, and the same offer again
    assert campaign.ask(4) is not None
    campaign.pause()
    campaign.tell(4, "C", 0.5)  # the offer was taken back
    campaign.resume()
    clock.pass_hours(72.0)
    campaign.status()  # the outcome of agent 2 has not come
    for m in (0, 1):
        campaign.tell(m, "C", 0.5)
    while (offer := campaign.ask(0)) is None or offer.arm == "A":
        for m in range(5):
            campaign.ask(m)
            campaign.tell(m, "A", 0.5)
    campaign.leave(0)
    found, _ = Reading(campaign.core).next(Place(), ())
    instead = [it for it in found if it["kind"] == "cancelled" and it["agent"] == "#4"]
    assert [it.pop("arm") for it in instead] == ["C"]  # of the pull; all others have that of their offer
    ends = {it["offer"]: (it["kind"], it["agent"], it.get("arm", "A")) for it in found if it["kind"] in ENDS}
    assert ends == {it.offer: (it.ending, it.agent, it.arm) for it in campaign.offers() if it.ending}
    paid = [(it["entry"], it["offer"], it["agent"], it["amount"], it["key"]) for it in found if it["kind"] == "paid"]
    assert paid == [(it.entry, it.offer, it.agent, it.amount, it.key) for it in campaign.ledger()]
    assert {it["kind"] for it in found} == {"started", "offered", "paused", "resumed", "recalled", "left", *ENDS}
    OPENED.pop().close()


ENDS = ("paid", "refused", "expired", "cancelled")


@pytest.mark.slow
def test_a_decision_is_told_with_its_arm_and_whether_it_is_certified(tmp_path: Path) -> None:
    wanted = ("decided", "eliminated")
    with (
        receiving(tmp_path, events=wanted) as (receiver, target),
        Service(f"sqlite:///{tmp_path}/trial.db", [target]) as service,
    ):
        path = service.create(arms=["A", "B"])
        rows = [{"agent": who, "arm": arm, "reward": float(arm == "A")} for who in ("ann", "bob", "cy") for arm in "AB"]
        while not service.send("GET", path).json()["decided"]:
            service.send("POST", f"{path}/observations:batch", {"observations": rows * 10})
        receiver.wait(lambda: "decided" in receiver.kinds())
        assert receiver.kinds() == ["eliminated", "decided"]
        assert (receiver.events[0]["arms"], receiver.events[1]["arm"]) == (["B"], "A")
        assert receiver.events[1]["certified"] is True


@pytest.mark.slow
def test_a_receiver_that_fails_hangs_or_sends_elsewhere_gets_it_again_and_nothing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "PATIENCE", 0.5)
    with receiving(tmp_path) as (receiver, target), Service(f"sqlite:///{tmp_path}/trial.db", [target]) as service:
        answers = {1: 500, 2: 302, 3: 0, 5: 404, 6: 503}
        receiver.answer = lambda number: answers.get(number, 204)
        path = service.create()
        for _ in range(3):
            act(service, path, "ann", "bob", "cy")
        receiver.wait(lambda: receiver.kinds().count("paid") == 9)
        assert receiver.kinds() == ["started", *["offered", "paid"] * 9]
        assert receiver.requests[0]["events"] == receiver.requests[1]["events"]
        row = caught_up(service)
        assert (row["name"], row["url"], row["deliveries"][0]["failures"]) == ("backend", target.url, 0)
        assert (row["deliveries"][0]["behind"], row["deliveries"][0]["last"]) == (0, "status 204")


@pytest.mark.slow
def test_after_a_restart_it_goes_on_where_it_was_and_can_begin_again_at_any_event(tmp_path: Path) -> None:
    with receiving(tmp_path) as (receiver, target), Service(f"sqlite:///{tmp_path}/trial.db", [target]) as service:
        path = service.create()
        act(service, path, "ann")
        receiver.wait(lambda: "paid" in receiver.kinds())
        service.restart()
        act(service, path, "bob")
        receiver.wait(lambda: receiver.kinds().count("paid") == 2)
        assert receiver.kinds() == ["started", "offered", "paid", "offered", "paid"]  # once each
        first = receiver.events[1]["event"]
        found = service.send("POST", f"{path}/webhooks/backend/replay", {"after": first - 1})
        assert (found.status_code, found.json()["event"]) == (200, first)
        receiver.wait(lambda: receiver.kinds().count("paid") == 4)
        assert receiver.events[5:] == receiver.events[1:5]  # the same again, ids and all
        for refused, body in (("other", {"after": 0}), ("backend", {"after": 10**6}), ("backend", {"after": -2})):
            answer = service.send("POST", f"{path}/webhooks/{refused}/replay", body)
            assert (answer.status_code in (404, 422), is_problem(answer)) == (True, True)


@pytest.mark.slow
def test_nobody_is_told_that_simulated_agents_were_paid(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/trial.db"
    played = create(url, Clock(), agents=2, arms=2)
    play(played, fp.Game([[0.0, 1.0]] * 2), steps=3)
    assert played.status().paid > 0
    OPENED.pop().close()
    with receiving(tmp_path) as (receiver, target), Service(url, [target]) as service:
        path = service.create(name="real")
        act(service, path, "ann")
        receiver.wait(lambda: "paid" in receiver.kinds())
        assert {it["campaign"] for it in receiver.requests} == {"real"}
        (row,) = service.send("GET", "/webhooks").json()
        assert [it["campaign"] for it in row["deliveries"]] == ["real"]


@pytest.mark.slow
def test_secrets_rotate_without_a_restart_and_a_target_can_be_tried(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("the receiver's next secret")
    files = (tmp_path / "secret", tmp_path / "new")
    with (
        receiving(tmp_path, secrets=files) as (receiver, target),
        Service(f"sqlite:///{tmp_path}/trial.db", [target]) as service,
    ):
        for secret in ("a secret of the receiver's own", "the receiver's next secret"):  # both count at once
            receiver.secret = secret
            assert service.send("POST", "/webhooks/backend/test").json() == {"delivered": True, "detail": "status 200"}
        assert receiver.kinds() == ["test", "test"]
        files[0].write_text("the one after that, at last")
        receiver.secret = "the one after that, at last"
        assert service.send("POST", "/webhooks/backend/test").json()["delivered"]
        receiver.secret = "another"
        assert service.send("POST", "/webhooks/backend/test").json() == {"delivered": False, "detail": "status 401"}
        files[0].write_text("short")
        told = service.send("POST", "/webhooks/backend/test").json()
        assert not told["delivered"]
        assert "must have at least 16 characters" in told["detail"]
        assert "short" not in told["detail"].split("in /")[0]
        assert service.send("POST", "/webhooks/none/test").status_code == 404
        for token in (service.reader, service.gateway):
            assert service.send("POST", "/webhooks/backend/test", token=token).status_code == 403


@pytest.mark.slow
def test_a_host_that_leads_to_this_machine_is_not_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path, private=False) as (receiver, target):
        port = target.url.split(":")[2].split("/")[0]
        names = Target("named", f"http://localhost:{port}/hooks", target.secrets)
        with Service(f"sqlite:///{tmp_path}/trial.db", [target, names]) as service:
            for name in ("backend", "named"):
                told = service.send("POST", f"/webhooks/{name}/test").json()
                assert not told["delivered"]
                assert "is at an address that is not public" in told["detail"]
        assert receiver.requests == []


INSIDE = """127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
    ::1 fe80::1%eth0 fec0::1 fd00::1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: ::"""


@pytest.mark.parametrize("address", INSIDE.split())
def test_addresses_inside_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_a_host_that_cannot_be_looked_up_is_a_failure_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sixteen letters or more")

    async def run() -> list[bool]:
        async with webhooks.pinned(False) as http:
            targets = [Target("odd", f"https://{it}/", (tmp_path / "secret",)) for it in ("a..b", "a" * 70, "xn--a")]
            return [(await webhooks.send(http, it, b"{}")).delivered for it in targets]

    assert asyncio.run(run()) == [False] * 3


def test_a_replay_that_is_asked_for_during_another_is_not_lost() -> None:
    class Slow:
        def place(self, event: int) -> Place:
            delivery.jump = None if event == 1 else 1
            return Place(event)

    async def step() -> bool:
        found.append(delivery.place.event)
        writer.ended = None if len(found) < 3 else errors.WriterEnded("it is over.")
        return True

    found, writer = list[int](), SimpleNamespace(ended=None)
    core = SimpleNamespace(writer=writer, register=None, store=SimpleNamespace(read=lambda *_: []), name="slots")
    opened: Any = SimpleNamespace(campaign=SimpleNamespace(blocking=SimpleNamespace(core=core)))
    http: Any = None

    async def run() -> None:
        delivery.jump = 7
        await delivery.run()

    delivery = webhooks.Delivery(Target("backend", "", ()), opened, http, lambda *_, **__: None)
    delivery.reading, delivery._step, delivery._keep = Slow(), step, _nothing  # type: ignore[assignment, method-assign]
    asyncio.run(run())
    assert found == [7, 1, 1]


async def _nothing(*_: object) -> None:
    return


def test_addresses_outside_are_public() -> None:
    assert all(map(is_public, ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34")))


GOOD: dict[str, Any] = {"url": '"https://shop.example/hooks"', "secret_files": '["secret"]'}


def written(folder: Path, name: str = "backend", **settings: str) -> Path:
    lines = [f"{key} = {value}" for key, value in (GOOD | settings).items() if value]
    (folder / "hooks.toml").write_text("\n".join([f"[{name}]", *lines]))
    (folder / "secret").write_text("sixteen letters or more")
    return folder / "hooks.toml"


def test_targets_are_read_from_a_file(tmp_path: Path) -> None:
    (target,) = read_targets(written(tmp_path, events='["paid", "decided"]', campaigns='["slots"]'))
    assert target == Target(
        "backend", "https://shop.example/hooks", (tmp_path / "secret",), ("paid", "decided"), ("slots",)
    )
    assert target.keys() == [b"sixteen letters or more"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": '"http://shop.example/hooks"'}, "must begin with https://"),
        ({"url": '"https://ann:pw@shop.example/"'}, "without a password"),
        ({"url": '"file:///etc/passwd"', "private": "true"}, "must begin with https://"),
        ({"url": "7"}, "must begin with https://"),
        ({"url": '"https://[::1"'}, "must begin with https://"),
        ({"url": '"https://shop.example:99999/"'}, "must begin with https://"),
        ({"secret_files": "[]"}, "must name from 1 to 3 files"),
        ({"secret_files": '["gone"]'}, "cannot be read"),
        ({"events": '["offerd"]'}, "did you mean 'offered'"),
        ({"secrets": '["x"]'}, "must be one of"),
        ({"private": '"yes"'}, "private of webhook backend"),
        ({"campaigns": "7"}, "must be a list of texts"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    with pytest.raises(errors.InvalidInput, match=said):
        read_targets(written(tmp_path, **settings))
    with pytest.raises(errors.InvalidInput, match="must be a table whose name"):
        read_targets(written(tmp_path, name="Back_end"))


def test_a_receiver_of_the_tests_refuses_a_wrong_signature() -> None:
    assert Receiver().take(b"{}", "t=1,v1=00") == 401
