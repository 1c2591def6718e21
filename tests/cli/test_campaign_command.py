"""`freepull campaign` from the outside: every command, JSON, sentences and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

import freepull as fp
from freepull.cli.campaign_data import app
from freepull.principal import for_people, pairing
from support.program import freepull
from support.rounded import downwards

RUNNER = CliRunner()
COMMANDS = [
    "new",
    "enrol",
    "start",
    "ask",
    "accept",
    "decline",
    "act",
    "outcome",
    "tell",
    "status",
    "verdict",
    "pause",
    "resume",
    "stop",
    "budget",
    "unban",
    "leave",
    "pass-over",
    "unavailable",
    "available",
    "withdraw",
    "erase",
    "ledger",
    "payout",
    "settle",
    "audit",
    "export",
    "import",
    "verify",
    "copy",
    "list",
    "backup",
    "restore",
    "play",
    "offers",
    "bans",
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/trial.db"


def run(*words: str, code: int = 0) -> Result:
    done = RUNNER.invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def told(*words: str) -> Any:
    """Return what a command prints as JSON, which must be all that it prints."""
    return json.loads(run(*words, "--json").stdout)


def new(url: str, *more: str, code: int = 0) -> None:
    words = ["new", url, "x", "--arms", "A,B", "--agents", "2", "--price", "0.50 EUR", "--observe", "steps:0", *more]
    run(*words, code=code)


def test_every_command_has_help_with_an_example() -> None:
    assert sorted(
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    ) == (sorted(COMMANDS))
    for command in COMMANDS:
        text = " ".join(run(command, "--help").stdout.split())
        assert f"Example: freepull campaign {command} " in text
        assert "--json" in text


def test_only_what_can_be_missing_is_called_none(url: str, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("ann\nnone\n")
    new(url, "--agents", str(tmp_path / "users.txt"), "--budget", "3")
    run("start", url, "x")
    assert told("budget", url, "x", "none")["budget"] is None
    assert "x has a new budget: 9 EUR" in run("budget", url, "x", "9 EUR").stdout
    assert "none has left" in run("leave", url, "x", "none").stdout
    events = [json.loads(line) for line in run("audit", url, "x", "--json", "--after", "2").stdout.splitlines()]
    assert [(it["action"], it["detail"]) for it in events][-1] == ("left", {"agent": "none"})
    assert min(it["event"] for it in events) == 3


CERTIFIED = ("--rule", "certified", "--observe", "steps:0", "--protocol", "never-ban")


def test_a_campaign_without_a_rule_gets_what_is_best_for_people(url: str) -> None:
    named = ["--rule", "comparisons", "--horizon", "60"]
    for name, more, horizon in (("a", [], None), ("b", ["--horizon", "60"], 60), ("named", named, 60)):
        run("new", url, name, "--arms", "A,B", "--agents", "3", "--price", "1 EUR", *more)
        with fp.Campaign.open(url, name) as campaign:
            assert campaign.settings.principal == for_people(horizon)
    run("new", url, "c", "--arms", "A,B", "--agents", "3", "--price", "1 EUR", "--epsilon", "0.1", "--budget", "5")
    with fp.Campaign.open(url, "c") as campaign:
        best = for_people()
        rule = replace(best.rule, epsilon=0.1)  # type: ignore[type-var]
        assert campaign.settings.principal == replace(best, rule=rule, budget=5.0)


def test_a_budget_can_be_given_as_money(url: str) -> None:
    made = run("new", url, "x", "--arms", "A,B", "--agents", "3", "--price", "0.50 EUR", "--budget", "30.20 EUR")
    assert "it may spend 30.20 EUR" in " ".join(made.stdout.split())
    audit = json.loads(run("audit", url, "x", "--json").stdout.splitlines()[0])["detail"]
    assert (audit["budget"], audit["principal"]["budget"]) == ("30.20 EUR", None)
    refused = run("new", url, "y", "--arms", "A,B", "--price", "0.50 EUR", "--budget", "30 USD", code=2)
    assert "--budget must be in EUR, as the price is, got 30.00 USD" in refused.stderr


def test_a_budget_is_kept_to_the_cent_where_prices_differ_and_futility_is_an_option(url: str) -> None:
    given = ["--rule", "certified", "--protocol", "never-ban", "--futility", "0.05", "--horizon", "50"]
    for name, price, budget in (("x", "100 EUR", "50.30 EUR"), ("y", "3 JPY", "1 JPY"), ("z", "7 JPY", "100 JPY")):
        priced = ["--pricing", "compensate", "--price", price, "--budget", budget]
        run("new", url, name, "--arms", "A,B", "--agents", "3", *given, *priced)
        with fp.Campaign.open(url, name) as campaign:
            assert str(campaign.status().budget) == budget
            assert campaign.settings.principal.futility == 0.05


def test_an_offer_is_accepted_declined_and_settled_by_its_number(url: str) -> None:
    new(url, *CERTIFIED)
    run("start", url, "x")
    offer = told("ask", url, "x", "#0")["id"]
    assert told("accept", url, "x", "#0", "--offer", str(offer))["accepted"]
    assert "has no open offer 9" in run("decline", url, "x", "#0", "--offer", "9", code=2).stderr
    assert "#0 has declined its offer" in run("decline", url, "x", "#0", "--offer", str(offer)).stdout
    run("tell", url, "x", "#1", told("ask", url, "x", "#1")["arm"], "0.5")
    assert told("settle", url, "x", "settled", "--entries", "1-1")["moved"] == 1
    assert (
        "entry 1 is settled, so it cannot become open;"
        in run("settle", url, "x", "open", "--entries", "1", code=2).stderr
    )
    assert (
        "--entries must be numbers such as 1-20,25"
        in run("settle", url, "x", "settled", "--entries", "5-2", code=2).stderr
    )


def test_where_nobody_gets_an_offer_it_says_why(url: str) -> None:
    new(url)
    assert "no offer: x has not started" in run("ask", url, "x", "#0").stdout
    run("start", url, "x")
    run("pause", url, "x")
    assert "no offer: x is paused" in run("ask", url, "x", "#0").stdout
    assert told("ask", url, "x", "#0") is None


def test_the_audit_says_who_did_what(url: str) -> None:
    new(url, "--ends", "2000-01-01T00:00+00:00", code=2)
    new(url)
    run("start", url, "x", "--by", "carl")
    rows = run("audit", url, "x").stdout.splitlines()
    assert [next(it for it in ("carl", "not said", "the campaign") if it in row) for row in rows if "2" in row] == [
        "not said",
        "not said",
        "carl",
    ]


def test_status_and_verdict_say_how_much_better_arms_are_and_who_is_awaited(url: str) -> None:
    run("new", url, "x", "--arms", "A,B", "--agents", "50", "--price", "1 EUR")
    run("play", url, "x", "--game", "street:agents=50,arms=2", "--steps", "40", "--json")
    (told_of,) = told("status", url, "x")["differences"]
    assert {told_of["arm"], told_of["than"]} == {"A", "B"}
    words = f"{told_of['arm']} is {told_of['low']:+.3f} to {told_of['high']:+.3f} better than {told_of['than']}"
    assert words in run("status", url, "x").stdout
    assert words in run("verdict", url, "x").stdout
    for command in ("status", "verdict"):
        assert [it["name"] for it in told(command, url, "x")["checks"]] == ["common shock", "drift", "reporting"]
        assert "check, common shock: no alarm: the evidence" in run(command, url, "x").stdout
    run("new", url, "y", "--arms", "A,B", "--agents", "3", "--price", "1 EUR", *CERTIFIED)
    run("start", url, "y")
    for _ in range(4):
        run("tell", url, "y", "#0", "A", "1")
    assert "waiting for #1, #2; nobody can take their place" in run("status", url, "y").stdout


def test_checks_can_be_left_out_and_an_alarm_is_printed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new(url, "--no-checks")
    assert told("start", url, "x")["checks"] == []
    assert "check, " not in run("status", url, "x").stdout
    monkeypatch.setattr(pairing, "books", alarmed_books(pairing.books))
    run("new", url, "y", "--arms", "A,B", "--agents", "3", "--price", "1 EUR")
    run("start", url, "y")
    assert "alarm: drift: not certified, because it was found that rewards drift" in run("status", url, "y").stdout


def alarmed_books(books: Any) -> Any:
    """Books in which the drift check has raised an alarm before anything was told."""

    def made(*sizes: Any) -> Any:
        found = books(*sizes)
        found.peaks[pairing.DRIFT] = 1e6
        return found

    return made


def test_a_campaign_from_beginning_to_end(url: str, tmp_path: Path) -> None:
    names = tmp_path / "users.txt"
    names.write_text("ann\nbob\n\n")
    said = run("new", url, "x", "--arms", "A, B", "--agents", str(names), "--price", "0.50 EUR", *CERTIFIED)
    assert "x is made, with 2 agents" in said.stdout
    names.write_text("cy\n")
    assert told("enrol", url, "x", str(names)) == {"agents": [2]}
    assert told("start", url, "x", "--by", "ops")["status"] == "running"
    offer = told("ask", url, "x", "ann")
    assert (offer["agent"], offer["bonus"]) == ("ann", "0.50 EUR")
    assert told("ask", url, "x", "ann") == offer
    assert f"0.50 EUR for {offer['arm']}, until" in run("ask", url, "x", "ann").stdout
    first = told("tell", url, "x", "ann", offer["arm"], "0.8", "--event", "v1")
    assert (first["outcome"], first["paid"]) == ("paid", "0.50 EUR")
    assert told("tell", url, "x", "ann", offer["arm"], "0.8", "--event", "v1") == first
    assert told("tell", url, "x", "bob", "A", "0.5", "--number", "1")["event"] == first["event"] + 1
    assert told("status", url, "x")["paid"] == 1
    assert "spent 0.50 EUR, reserved 0.00 EUR" in run("status", url, "x").stdout
    assert told("verdict", url, "x")["decided"] is False
    assert "rule: the certified rule" in run("verdict", url, "x").stdout
    assert told("budget", url, "x", "10 EUR")["budget"] == "10.00 EUR"
    assert told("budget", url, "x", "none")["budget"] is None
    assert told("pause", url, "x")["status"] == "paused"
    assert told("resume", url, "x")["status"] == "running"
    assert told("leave", url, "x", "cy")["absent"] == 1
    (entry,) = [json.loads(line) for line in run("ledger", url, "x", "--json").stdout.splitlines()]
    assert (entry["agent"], entry["amount"]) == ("ann", "0.50 EUR")
    assert "0.50 EUR" in run("ledger", url, "x").stdout
    actions = [json.loads(line)["action"] for line in run("audit", url, "x", "--json").stdout.splitlines()]
    assert actions[:4] == ["created", "enrolled", "enrolled", "started"]
    assert told("export", url, "x", str(tmp_path / "o.csv")) == {"rows": 2, "path": str(tmp_path / "o.csv")}
    assert told("import", url, "x", str(tmp_path / "o.csv")) == {"rows": 2}
    assert told("erase", url, "x", "bob") == {"erased": ["bob"]}
    assert told("list", url) == ["x"]
    assert told("copy", url, "x", url.replace("trial", "copy"))["ledger"] == 1
    run("backup", url, str(tmp_path / "backup.db"))
    restored = told("restore", url, str(tmp_path / "backup.db"))
    assert [it["name"] for it in restored["campaigns"]] == ["x"]
    assert told("verify", url, "x")["observations"] == 4
    stopped = told("stop", url, "x", "--why", "over")
    assert (stopped["status"], stopped["why"]) == ("stopped", "over")


def test_a_rehearsal(url: str) -> None:
    words = ["new", url, "x", "--arms", "A,B,C", "--agents", "2", "--price", "1 EUR", "--mode", "rounds"]
    run(*words, "--horizon", "40")
    played = told("play", url, "x", "--steps", "40", "--answers", "with-probability:0.5")
    assert (played["status"]["step"], played["status"]["observations"]) == (40, 80)
    assert played["verdict"]["arm"] in "ABC"
    assert played["status"]["rehearsal"]
    assert "a rehearsal" in played["verdict"]["why"]
    assert "step 41 of 40" in run("play", url, "x", "--steps", "1").stdout
    assert "running, over, a rehearsal" in run("status", url, "x").stdout
    for words in (["tell", url, "x", "#0", "A", "0.5"], ["ask", url, "x", "#0"]):
        refused = run(*words, code=2)
        assert "is a rehearsal, played by simulated agents, so it is closed to real ones" in refused.stderr


@pytest.mark.slow
def test_a_verdict_says_how_far_it_survives(url: str) -> None:
    run("new", url, "x", "--arms", "A,B", "--agents", "1", "--price", "1 EUR",
        "--rule", "certified", "--delta", "0.3", "--robust", "0.02",
        "--observe", "steps:0", "--horizon", "999")  # fmt: skip
    run("start", url, "x")
    for arm, reward in (("A", "1"), ("B", "0")) * 20:
        run("tell", url, "x", "#0", arm, reward)
    survives = told("verdict", url, "x")["survives"]
    assert survives == told("status", url, "x")["survives"] >= 0.02
    words = f"stands as long as payment, drift and the like move no mean by more than ± {downwards(survives)}"
    assert f"the verdict {words}" in " ".join(run("status", url, "x").stdout.split())
    assert words in " ".join(run("verdict", url, "x").stdout.split())


BAD = [
    (["status", "sqlite:///nowhere.db", "x"], "there is no file nowhere.db"),
    (["status", "{url}", "y"], "has no campaign 'y'; it has x"),
    (["tell", "{url}", "x", "9", "A", "0.5"], "has no agent '9'"),
    (["tell", "{url}", "x", "#0", "Z", "0.5"], "arm must be one of A, B"),
    (["tell", "{url}", "x", "#0", "A", "nan"], "reward must be a number in [0, 1], got nan"),
    (["tell", "{url}", "x", "#0", "A", "1.5"], "reward must be a number in [0, 1], got 1.5"),
    (["resume", "{url}", "x"], "only a paused one can be resumed"),
    (["unban", "{url}", "x", "#1"], "agent #1 is not banned"),
    (["withdraw", "{url}", "x", "A"], "withdrawing an arm must be provided for"),
    (["budget", "{url}", "x", "5 USD"], "budget must be in EUR"),
    (["budget", "{url}", "x", "lots"], "budget must be an amount and a currency"),
    (["new", "{url}", "x", "--arms", "A,B", "--price", "1 EUR", "--horizon", "9"], "has a campaign 'x' already"),
    (["new", "{url}", "z", "--arms", "A,B", "--price", "1 EUR", "--agents", "no.txt"], "--agents must be a number"),
    (
        ["new", "{url}", "z", "--arms", "A,B", "--price", "1 EUR", "--rule", "certified"],
        "horizon must be a number of steps",
    ),
    (["export", "{url}", "x", "o.xls"], "path must end in .parquet or .csv"),
    (["erase", "{url}", "x"], "agents must be named"),
    (["copy", "{url}", "x", "{url}"], "x"),
]


@pytest.fixture(scope="module")
def unmoved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A started campaign and its audit, which is in the end as it was in the beginning."""
    url = f"sqlite:///{tmp_path_factory.mktemp('bad')}/trial.db"
    new(url)
    run("start", url, "x")
    audit, status = run("audit", url, "x", "--json").stdout, told("status", url, "x")
    yield url, audit
    assert told("status", url, "x") == status


@pytest.mark.slow
@pytest.mark.parametrize(("words", "said"), BAD)
def test_bad_input_is_one_sentence_and_exit_code_2_and_moves_nothing(
    unmoved: tuple[str, str], words: list[str], said: str
) -> None:
    url, before = unmoved
    done = run(*(word.format(url=url) for word in words), code=2)
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert run("audit", url, "x", "--json").stdout == before


def test_a_tell_after_stop_is_refused(url: str) -> None:
    new(url)
    run("start", url, "x")
    run("stop", url, "x")
    before = told("verify", url, "x")
    assert "has stopped, so nothing can be told any more" in run("tell", url, "x", "#0", "A", "0.5", code=2).stderr
    assert told("verify", url, "x") == before


@pytest.mark.slow
def test_an_event_told_twice_with_other_content_is_refused(url: str) -> None:
    new(url)
    run("start", url, "x")
    first = told("tell", url, "x", "#0", "A", "0.5", "--event", "e")
    before = told("verify", url, "x")
    assert told("tell", url, "x", "#0", "A", "0.5", "--event", "e") == first
    assert "has used this event id" in run("tell", url, "x", "#0", "B", "0.5", "--event", "e", code=2).stderr
    assert "must have number 1, got 2" in run("tell", url, "x", "#0", "B", "0.5", "--number", "2", code=2).stderr
    assert told("verify", url, "x") == before


def test_a_file_of_a_newer_freepull_is_refused(url: str) -> None:
    new(url)
    before, path = told("verify", url, "x"), url.removeprefix("sqlite:///")
    with closing(apsw.Connection(path)) as file:
        known = file.pragma("user_version")
        file.pragma("user_version", 99)
    assert "was written by a newer freepull" in " ".join(run("start", url, "x", code=2).stderr.split())
    with closing(apsw.Connection(path)) as file:
        file.pragma("user_version", known)
    assert told("verify", url, "x") == before


@pytest.mark.slow
def test_a_second_process_is_refused(url: str) -> None:
    new(url)
    with fp.Campaign.open(url, "x") as campaign:
        before = campaign.status().events
        for words in (["start", url, "x"], ["tell", url, "x", "#0", "A", "0.5"], ["verify", url, "x"]):
            done = freepull("campaign", *words)
            assert (done.returncode, done.stdout) == (2, "")
            assert "is open in another process" in " ".join(done.stderr.split())
        assert campaign.status().events == before


@pytest.mark.slow
def test_the_program_knows_the_group(tmp_path: Path) -> None:
    done = freepull("campaign", "status", f"sqlite:///{tmp_path}/none.db", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no file")
