"""A principal as JSON: every part can be named, and what is wrong is said in JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from freepull import registry
from freepull.errors import InvalidInput
from freepull.principal import Principal, for_people
from freepull.server.schemas import EXAMPLE, read_principal
from support.running import NEW, Service

NEEDED: dict[str, dict[str, Any]] = {
    "Steps": {"n": 3},
    "KnownGap": {"gap": 0.2},
    "Paper": {"delta": 0.1},
    "BanFor": {"rounds": 2},
}
NEEDED |= {"BanAfter": {"refusals": 2}}


def test_every_part_has_its_place() -> None:
    places: dict[str, Any] = {
        "rule": lambda plain: {"rule": plain},
        "observe": lambda plain: {"observe": plain},
        "protocol": lambda plain: {"protocol": plain},
        "design": lambda plain: {"rule": {"part": "Certified", "design": plain}},
        "forecast": lambda plain: {"rule": {"part": "Certified", "design": {"part": "Design", "forecast": plain}}},
    }
    assert set(places) == {*registry.KINDS} - {
        *(
            "agents",
            "answers",
            "rewards",
            "principal",
            "activity",
            "leaving",
            "pricing",
            "disturbances",
        ),  # not of a principal here
        "blocks",  # there are none any more
    }
    for kind, placed in places.items():
        for part in registry.parts(kind):
            plain = {"part": part.name, **NEEDED.get(part.name, {})}
            found = read_principal(placed(plain))
            assert f"'part': '{part.name}'" in str(registry.encode(found))
            assert read_principal(placed({"kind": part.written} | NEEDED.get(part.name, {}))) == found
    assert registry.encode(read_principal(EXAMPLE)).items() >= {"offers": "each", "budget": 500}.items()
    assert read_principal(None) == read_principal({}) == read_principal({"part": "Principal"}) == for_people()
    assert read_principal({"kind": "Principal"}) == for_people()
    assert read_principal({"budget": 5}, 60) == replace(for_people(60), budget=5.0)
    assert read_principal({"rule": {"part": "Certified"}}) == Principal(offers="each")
    again = registry.encode(read_principal({"rule": {"part": "Certified", "design": {"part": "Design"}}}))
    assert registry.encode(read_principal(again)) == again


@pytest.mark.parametrize(
    ("plain", "sentence"),
    [
        (
            {"rule": "certified"},
            'principal.rule must be a part such as {"part": "Certified", "delta": 0.05}, got "cert',
        ),
        ({"rule": None}, 'principal.rule must be a part such as {"part": "Certified", "delta": 0.05}, got null.'),
        (
            {"rule": {"delta": 0.1}},
            'principal.rule must be a part such as {"part": "Certified", "delta": 0.05}, got {"',
        ),
        (
            {"rule": {"part": "Share"}},
            "principal.rule.part must be one of Certified, Comparisons, Paper, Pas",
        ),
        ({"observe": 0.5}, 'principal.observe must be a part such as {"part": "Share", "rho": 0.5}, got 0.5.'),
        (
            {"observe": {"part": "Steps"}},
            'principal.observe Steps must be given n, as in "n": …, got {"part": "Steps"}.',
        ),
        ({"protocol": []}, 'principal.protocol must be a part such as {"part": "TakeOrBan"}, got [].'),
        ({"protocol": None}, 'principal.protocol must be a part such as {"part": "TakeOrBan"}, got null.'),
        (
            {"observe": [{"part": "Steps", "n": 1}]},
            'principal.observe must be a part such as {"part": "Share", "rho": 0.5}, got [{"part": "Steps", "n": 1}].',
        ),
        ({"rule": []}, 'principal.rule must be a part such as {"part": "Certified", "delta": 0.05}, got [].'),
        (
            {"rule": {"part": "Certified", "design": []}},
            'principal.rule.design must be a part such as "auto" or {"part": "Design", "first_block": 1}, got [].',
        ),
        ({"offers": []}, "offers must be one of one, each; got []."),
        ({"part": "Certified"}, "principal.part must be one of Principal; got 'Certified'."),
        ({"rule": {"part": "Certified", "design": "mine"}}, 'principal.rule.design must be a part such as "auto" or {'),
        ({"rule": {"part": "Paper", "dleta": 1}}, "the parameter of principal.rule Paper must be one of delta, bound,"),
        (
            {"rule": {"part": "os.path:Rule"}},
            "principal.rule.part must be one of Certified, Comparisons, Paper, Passive, Population, because "
            "a campaign's log has to name it, got 'os.path:Rule'; parts of your own are for simulations.",
        ),
        (
            {"rules": 1},
            "the parameter of principal must be one of rule, observe, protocol, offers, bonus, budget, pricing",
        ),
    ],
)
def test_what_is_wrong_is_said_in_json(service: Service, plain: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput):
        read_principal(plain)
    found = service.send("POST", "/campaigns", NEW | {"principal": plain})
    assert (found.status_code, found.json()["detail"][: len(sentence)]) == (422, sentence)
    assert "freepull." not in found.text


def test_checks_run_unless_they_are_turned_off_and_are_refused_where_they_cannot(service: Service) -> None:
    body = {"arms": ["A", "B"], "agents": ["ann"], "price": "1 EUR"}
    for name, checks, count in (("a", {}, 3), ("b", {"checks": True}, 3), ("c", {"checks": False}, 0)):
        assert service.send("POST", "/campaigns", {"name": name, **body, **checks}).status_code == 201
        started = service.send("POST", f"/campaigns/{name}/start").json()
        assert len(started["checks"]) == count
        assert len(service.send("GET", f"/campaigns/{name}/verdict").json()["checks"]) == count
    certified = {"principal": {"rule": {"part": "Certified"}, "observe": {"part": "Steps", "n": 0}}, "checks": True}
    refused = service.send("POST", "/campaigns", {"name": "d", **body, **certified})
    assert refused.status_code == 422
    assert "checks must be left out with rules.Certified" in refused.json()["detail"]
