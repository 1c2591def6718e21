"""A principal as JSON: every part can be named, and what is wrong is said in JSON."""

from __future__ import annotations

from typing import Any

import pytest
from running import NEW, Service

from freepull.errors import InvalidInput
from freepull.live.settings import PARTS, encode_part
from freepull.service.principals import EXAMPLE, SLOTS, read_principal

NEEDED: dict[str, dict[str, Any]] = {
    "Steps": {"n": 3},
    "KnownGap": {"gap": 0.2},
    "Paper": {"delta": 0.1},
    "BanFor": {"rounds": 2},
}
NEEDED |= {"BanAfter": {"refusals": 2}}


def test_every_part_has_its_place() -> None:
    assert {part for slot in SLOTS.values() for part in slot.parts} | {"Principal"} == set(PARTS)
    for (kind, field), slot in SLOTS.items():
        for part in slot.parts:
            plain: dict[str, Any] = {"part": part, **NEEDED.get(part, {})}
            if kind == "Design":
                plain = {"part": "Design", field: plain}
            whole = {field: plain} if kind == "Principal" else {"rule": {"part": "Certified", "design": plain}}
            whole = {"rule": {"part": kind, field: plain}} if kind == "Pairwise" else whole
            assert f"'part': '{part}'" in str(encode_part(read_principal(whole)))
    assert encode_part(read_principal(EXAMPLE)).items() >= {"offers": "each", "budget": 500}.items()
    assert read_principal(None) == read_principal({}) == read_principal({"part": "Principal"})
    again = encode_part(read_principal({"rule": {"part": "Certified", "design": {"part": "Design"}}}))
    assert encode_part(read_principal(again)) == again


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
        ({"rule": {"part": "Share"}}, "principal.rule.part must be one of Certified, Pairwise, Population, Paper, Pas"),
        ({"observe": 0.5}, 'principal.observe must be a part such as {"part": "Share", "rho": 0.5}, got 0.5.'),
        ({"observe": {"part": "Steps"}}, "principal.observe must have n, as every Steps has; add it."),
        ({"protocol": []}, 'principal.protocol must be a part such as {"part": "TakeOrBan"}, got [].'),
        ({"part": "Certified"}, "principal.part must be one of Principal; got 'Certified'."),
        ({"rule": {"part": "Certified", "design": "mine"}}, 'principal.rule.design must be a part such as "auto" or {'),
        ({"rules": 1}, "the parameter of Principal must be one of rule, observe, protocol, offers, bonus, budget; got"),
    ],
)
def test_what_is_wrong_is_said_in_json(service: Service, plain: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput):
        read_principal(plain)
    found = service.send("POST", "/campaigns", NEW | {"principal": plain})
    assert (found.status_code, found.json()["detail"][: len(sentence)]) == (422, sentence)
    assert "freepull." not in found.text
