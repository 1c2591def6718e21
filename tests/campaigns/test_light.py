"""Without the extra `live`: freepull imports and simulates, and a campaign says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BLOCK = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("apsw", "psycopg"):
            raise ImportError(name)
sys.meta_path.insert(0, Gone())
import freepull as fp
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, check=False)


def test_importing_freepull_loads_no_database() -> None:
    done = run("print(sorted({'apsw', 'psycopg', 'numba', 'polars', 'freepull.campaigns'} & set(sys.modules)))")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_campaign_says_in_one_sentence_what_to_install() -> None:
    for url, what in (("sqlite:///x.db", "apsw for SQLite"), ("postgresql://x", "psycopg for PostgreSQL")):
        done = run(
            f"""
try:
    fp.Campaign.open({url!r}, "x")
except fp.errors.MissingExtra as error:
    print(error)
"""
        )
        said = f"campaigns need {what}; install freepull with pip install 'freepull[live]'."
        assert (done.stdout.strip(), done.stderr) == (said, "")
