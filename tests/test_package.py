"""The package's front door: names load when first used, and a misspelt one is guessed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

import freepull as fp


@pytest.mark.parametrize("name", fp.__all__)
def test_every_listed_name_loads(name: str) -> None:
    assert getattr(fp, name) is getattr(fp, name)
    assert name in dir(fp)


def test_checkers_of_types_know_every_listed_name() -> None:
    (known,) = (it for it in ast.parse(Path(fp.__file__).read_text(encoding="utf-8")).body if isinstance(it, ast.If))
    names = [name for it in known.body if isinstance(it, ast.ImportFrom) for name in it.names]
    assert sorted(name.asname or name.name for name in names) == sorted(fp.__all__) == sorted(fp._HOME)


@pytest.mark.slow
def test_import_stays_light() -> None:
    code = "import sys, freepull; print(*[m for m in ('numba', 'polars', 'scipy', 'matplotlib') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(AttributeError, match=r"^freepull has no 'Gaem'; did you mean 'Game'\?$"):
        _ = fp.Gaem


def test_an_unknown_name_is_refused_without_a_guess() -> None:
    with pytest.raises(AttributeError, match=r"^freepull has no 'zzzzzz'\.$"):
        _ = fp.zzzzzz


def test_every_error_is_a_freepull_error() -> None:
    for name in ("InvalidInput", "UnknownName", "AgentError", "ResultError"):
        assert issubclass(getattr(fp.errors, name), fp.errors.FreepullError)
    assert issubclass(fp.errors.InvalidInput, ValueError)
    assert issubclass(fp.errors.UnknownName, fp.errors.InvalidInput)


ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.slow
def test_the_wheel_and_the_sdist_have_what_they_need_and_no_more(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        about = message_from_bytes(packed.read(f"freepull-{fp.__version__}.dist-info/METADATA"))
    assert {name.split("/")[0] for name in names} == {"freepull", f"freepull-{fp.__version__}.dist-info"}
    assert {"freepull/py.typed", "freepull/studies/files/paper-2c.toml"} <= names
    assert [name for name in names if name.endswith((".nbi", ".nbc", ".pyc", ".db"))] == []
    assert wheel.stat().st_size < 1_000_000
    assert about["Requires-Python"] == ">=3.11"
    assert about["License-Expression"] == "MIT"
    assert about["Author"] == "The freepull developers"
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert "# freepull" in about.get_payload()
    with tarfile.open(sdist) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py", "docs/conf.py"} <= inside
    assert [name for name in inside if name.startswith(("out/", "docs/_build", "docs/tutorials", ".venv"))] == []


def test_one_version_is_named_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    assert {cited, recipe["context"]["version"]} == {fp.__version__}


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    needs = {re.sub(r"[ \"]", "", it) for it in recipe["requirements"]["run"] if not it.startswith("python ")}
    assert {it.replace("-base", "") for it in needs} == set(PROJECT["dependencies"])


def test_a_light_use_needs_nothing_heavy() -> None:
    extras = PROJECT["optional-dependencies"]
    names = {extra: {re.split(r"[^A-Za-z-]", it)[0] for it in needs} for extra, needs in extras.items()}
    assert names["client"] == {"httpx"}
    assert names["cluster"] == {"distributed"}
    assert names["docs"] == {"sphinx", "myst-parser", "furo", "sphinx-gallery"}
    assert not names["live"] & {"sphinx", "distributed", "pytest"}
