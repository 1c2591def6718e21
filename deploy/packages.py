"""Prints the part of a hashed lock file that some extras or packages need: python packages.py live, or hatchling.

The lock is for everything, tests included, and says behind every package which others need it. An image needs less.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def normal(requirement: str) -> str:
    """Return the name of a package that a requirement names, as the lock has it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def blocks(lock: str) -> dict[str, str]:
    """Return what the lock says of every package; some have one version for each Python."""
    found: dict[str, str] = {}
    for block in filter(str.strip, re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)):
        found[normal(block)] = found.get(normal(block), "") + block
    return found


def wanted(names: list[str], project: dict[str, object], known: dict[str, str]) -> set[str]:
    """Return the packages of extras, or packages by name, and all that they need in turn."""
    table: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    always: list[str] = project["dependencies"]  # type: ignore[assignment]
    new: list[str] = []
    for name in names:
        new += [*always, *table[name]] if name in table else [name]
    found: set[str] = set()
    while new:
        requirement = new.pop()
        name = normal(requirement)
        extras = re.search(r"\[([\w,-]+)\]", requirement)
        if name == normal(str(project["name"])):
            new += [it for extra in (extras[1] if extras else "").split(",") if extra for it in table[extra]]
        elif name not in found:
            found.add(name)
            new += [other for other, block in known.items() if re.search(rf"^    #(?: via|  ) {name}$", block, re.M)]
    return found


def main(names: list[str]) -> None:
    """Print the part of the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = blocks((ROOT / "requirements.txt").read_text())
    found = wanted(names, project, known)
    missing = sorted(found - known.keys())
    assert not missing, f"requirements.txt has no {', '.join(missing)}; make lock"
    print("".join(known[name] for name in sorted(found)), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
