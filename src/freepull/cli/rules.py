"""Rules by the names that people type, and the options that belong to each."""

from __future__ import annotations

from collections.abc import Callable

from freepull import checks
from freepull.errors import InvalidInput
from freepull.principal import rules

OWN: dict[str, tuple[str, ...]] = {
    "certified": ("gap", "robust"),
    "pairwise": ("gap", "epsilon"),
    "population": ("pulls",),
    "paper": ("bound", "scale"),
    "passive": (),
}
"""The options of each rule, beside --delta."""
_MAKERS: dict[str, Callable[..., rules.Rule]] = {
    "certified": rules.Certified,
    "pairwise": rules.Pairwise,
    "population": rules.Population,
    "paper": rules.Paper,
}


def build_rule(name: str, delta: float, **options: object) -> rules.Rule:
    """Make a rule; an option that was given but belongs to another rule is refused."""
    checks.one_of("--rule", name, OWN)
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in OWN[name]:
            theirs = " or ".join(rule for rule, own in OWN.items() if option in own)
            raise InvalidInput(f"--{option} must be left out with --rule {name}; it belongs to --rule {theirs}.")
    if name == "passive":
        return rules.Passive()
    return _MAKERS[name](delta=delta, **given)
