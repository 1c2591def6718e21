"""The parts of a simulation from the command line: `alpha-ucb`, `with-probability:0.8`, `ban-for:rounds=10`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from freepull import parts
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.instances import Family, toy
from freepull.parts import choices

__all__ = ["build", "build_game", "choices"]


def build(kind: str, text: str, option: str | None = None) -> Any:
    """Make a part from its name and parameters: `name`, `name:value` or `name:parameter=value,…`."""
    return parts.build(kind, text, f"--{option or kind}")


def build_game(text: str, law: str, weights: str | None) -> Any:
    """Make a game from `toy`, `family:agents=30,sd=0.005`, or a CSV file of means, one row an agent."""
    name, _, given = text.partition(":")
    if name == "toy" and not given and law == "bernoulli" and weights is None:
        return toy()
    if name == "family":
        if law != "bernoulli" or weights is not None:
            raise InvalidInput("--rewards and --weights must be left out with --game family, whose games are drawn.")
        return Family(**{"agents": 30, **parts.parameters("--game family", ["agents", "sd"], given)})
    p = None if weights is None else [parts.number("--weights", part) for part in weights.split(",")]
    if name == "toy" and not given:
        means: Any = toy().means
    elif not Path(text).is_file():
        raise InvalidInput(
            f"--game must be toy, family:agents=M,sd=σ or a CSV file of means that exists, got {text!r}."
        )
    else:
        try:
            means = parts.means_from_csv(text, Path(text).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"--game {text} cannot be read: {error}; give a CSV file of means, a row an agent."
            ) from None
    return Game(means, rewards=build("rewards", law), weights=p)
