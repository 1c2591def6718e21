"""The package's front door: names load when first used, and a misspelt one is guessed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import freepull as fp


@pytest.mark.parametrize("name", fp.__all__)
def test_every_listed_name_loads(name: str) -> None:
    assert getattr(fp, name) is getattr(fp, name)
    assert name in dir(fp)


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
