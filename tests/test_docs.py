"""The documentation builds without a warning, and every link of the README leads somewhere."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

import freepull as fp
from freepull import testing

ROOT = Path(__file__).parents[1]
CONSTANTS = {
    "freepull.instances.PAPER_MEANS",
    "freepull.testing.AGENT_CHECKS",
    "freepull.testing.RULE_CHECKS",
    "freepull.testing.STORE_CHECKS",
}
"""Tables, which say what they are where they are used."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-d", str(folder / "trees"), str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def public_names() -> Iterator[str]:
    """Return every public name: those of the package, and those of its modules that are public themselves."""
    for module in (fp, testing):
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value):
                yield f"{module.__name__}.{name}"
                continue
            inside = getattr(value, "__all__", None) or [name for name in vars(value) if name[0].isupper()]
            yield from (f"{module.__name__}.{name}.{each}" for each in inside)


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    with (site / "objects.inv").open("rb") as file:
        kinds = InventoryFile.load(file, "", lambda _, to: to)
    described = {name for kind, names in kinds.items() if kind.startswith("py:") for name in names}
    public = set(public_names())
    assert len(public) > 80
    assert sorted(public - described - CONSTANTS) == []


def test_every_public_class_and_function_has_a_docstring() -> None:
    bare = []
    for name in public_names():
        home, _, attribute = name.rpartition(".")
        value = getattr(eval(home.replace("freepull", "fp", 1), {"fp": fp}), attribute)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
            bare.append(name)
    assert bare == []


def test_the_readme_links_to_what_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []
