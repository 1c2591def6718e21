"""One set of commands: every verb has a handler, a way to the service, and the same form on asyncio."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import freepull as fp
from freepull.campaigns.campaign import READS
from freepull.campaigns.core import HANDLERS
from freepull.client import talks
from freepull.commands import COMMANDS, Command, TellMany

TWINS = [
    (fp.Campaign, fp.AsyncCampaign),
    (fp.RemoteCampaign, fp.AsyncRemoteCampaign),
    (fp.Client, fp.AsyncClient),
    (fp.AgentClient, fp.AsyncAgentClient),
]
DOCUMENT = json.loads((Path(__file__).parent / "golden" / "openapi.json").read_text())


def public(kind: type) -> dict[str, Any]:
    return {name: found for name, found in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "asynchronous"), TWINS)
def test_what_waits_and_what_is_awaited_agree(blocking: type, asynchronous: type) -> None:
    waits, awaited = public(blocking), public(asynchronous)
    assert sorted(waits) == sorted(awaited)
    for name in waits:
        assert inspect.iscoroutinefunction(awaited[name]) or name == "campaign", name
        assert not inspect.iscoroutinefunction(waits[name]), name
        assert waits[name].__doc__, name
        if name not in ("act", "campaign", "close", "create", "do", "backup"):
            assert inspect.signature(waits[name]) == inspect.signature(awaited[name]), name
            assert waits[name].__doc__ == awaited[name].__doc__, name


@pytest.mark.parametrize("kind", [kind for pair in TWINS[:2] for kind in pair])
def test_every_campaign_has_every_verb(kind: type) -> None:
    assert len(COMMANDS) == 30
    for command in COMMANDS:
        method = getattr(kind, command.verb)
        assert method.__doc__ == command.__doc__
        assert list(inspect.signature(method).parameters) == ["self", *command.__struct_fields__]


def test_every_command_is_done_by_one_handler() -> None:
    assert {*HANDLERS, *READS} == {*COMMANDS, TellMany}
    assert not {*HANDLERS} & {*READS}
    for command, method in HANDLERS.items():
        given = inspect.signature(method, eval_str=True).parameters["it"].annotation
        assert given is command, f"{method.__name__} takes a {given.__name__}"


@pytest.mark.parametrize("command", [it for it in COMMANDS if it.route is not None])
def test_the_service_has_every_route_as_it_is_declared(command: type[Command[Any]]) -> None:
    route = command.route
    assert route is not None
    path = "/v1/campaigns/{campaign}" + f"/{route.path}".rstrip("/")
    found = DOCUMENT["paths"][path][route.method.lower()]
    answer = found["responses"][str(route.status)].get("content", {})
    shown = json.dumps(answer)
    if route.reply is not None:
        name = (get_args(route.reply) or [route.reply])[0].__name__
        assert f'"#/components/schemas/{name}"' in shown
    assert ("requestBody" in found) == (route.method != "GET" and bool(command.body()))
    if "requestBody" in found:
        (body,) = found["requestBody"]["content"].values()
        schema = DOCUMENT["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
        assert sorted(schema["properties"]) == sorted(field.name for field in command.body())


def test_every_command_can_be_sent_to_a_service() -> None:
    assert {*talks.OWN} | {it for it in COMMANDS if it.route is not None} == {*COMMANDS}


def fresh(code: str) -> str:
    """Return what a fresh process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_a_client_loads_neither_numpy_nor_numba() -> None:
    code = """
import sys, freepull as fp
from freepull.client import talks
from freepull.commands import Start, Tell
for kind in (fp.Client, fp.AsyncClient):
    campaign = kind("http://127.0.0.1:9", "x").campaign("c")
for kind in (fp.AgentClient, fp.AsyncAgentClient):
    kind("http://127.0.0.1:9", "c", "x")
next(talks.talk("c", Start())), next(talks.talk("c", Tell("ann", "A", 0.5)))
next(talks.my_pull("c", "A", 0.5, None)), talks.create({"name": "c", "principal": {}})
print(*sorted({"numpy", "numba", "polars", "scipy", "freepull.campaigns", "freepull.principal"} & set(sys.modules)))
"""
    assert fresh(code).split() == []


@pytest.mark.slow
def test_an_agent_s_client_is_there_at_once() -> None:
    code = "import time, freepull as fp; fp.AgentClient; print(time.process_time())"
    assert min(float(fresh(code)) for _ in range(3)) < 0.25


@pytest.mark.slow
def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    code = """
import sys
sys.modules["httpx"] = None
import freepull as fp
try:
    fp.AgentClient("http://127.0.0.1:9", "c", "x")
except fp.errors.MissingExtra as error:
    print(error)
"""
    assert fresh(code).strip() == "clients need httpx; install freepull with pip install 'freepull[client]'."


async def never_run(own: fp.Campaign, served: fp.RemoteCampaign, on_asyncio: fp.AsyncRemoteCampaign) -> None:
    """Here mypy proves that it checks verbs: it refuses an ignored error that is none."""
    own.leave(agnt="ann")  # type: ignore[call-arg]
    served.withdraw([3])  # type: ignore[arg-type]
    served.tell_many([])  # type: ignore[attr-defined]
    served.status().nam  # type: ignore[attr-defined]  # noqa: B018
    (await on_asyncio.add_agents(3)).sort()
    on_asyncio.add_agents(3).sort()  # type: ignore[attr-defined]
