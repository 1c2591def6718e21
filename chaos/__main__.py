"""`make chaos`: crashes, power cuts, faults, two writers, repetition, corruption, recovery; a line of figures each."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable

from . import (
    corruption,
    damage,
    erasure,
    faults,
    forks,
    kills,
    life,
    memory,
    migrations,
    payouts,
    postgres,
    power,
    recovery,
    repetition,
    restores,
    rights,
    uploads,
    verbs,
    webhooks,
    writers,
)
from .outcome import Finding
from .world import ASKING, LATE, PRICED

CHAOS: dict[str, tuple[Callable[[], Finding], Callable[[], Finding]]] = {
    "kills": (kills.run, lambda: kills.run(4, 0.2)),
    "asks": (lambda: kills.run(50, principal=ASKING), lambda: kills.run(4, 0.2, ASKING)),
    "late": (lambda: kills.run(50, principal=LATE), lambda: kills.run(4, 0.2, LATE)),
    "life": (life.run, lambda: life.run(4, 0.2)),
    "prices": (lambda: kills.run(50, principal=PRICED), lambda: kills.run(4, 0.2, PRICED)),
    "power": (power.run, lambda: power.run(15, 40)),
    "faults": (faults.run, lambda: faults.run(330, 47)),
    "reads": (faults.unread, lambda: faults.unread(45, 9)),
    "verbs": (verbs.run, lambda: verbs.run(8)),
    "verbs on PostgreSQL": (lambda: verbs.on_postgres(60), lambda: verbs.on_postgres(6)),
    "payouts": (payouts.run, lambda: payouts.run(4, 0.2)),
    "payouts on PostgreSQL": (payouts.on_postgres, lambda: payouts.on_postgres(3, 0.2)),
    "webhooks": (webhooks.run, lambda: webhooks.run(1, 1.0)),
    "migrations": (migrations.run, lambda: migrations.run(7, 1)),
    "forks": (forks.run, lambda: forks.run(4)),
    "restores": (restores.run, lambda: restores.run(14)),
    "erasure": (erasure.run, lambda: erasure.run(3_000)),
    "postgres": (postgres.run, lambda: postgres.run(2, 4)),
    "writers": (writers.run, lambda: writers.run(6.0, 1)),
    "repetition": (repetition.run, lambda: repetition.run(1500)),
    "corruption": (corruption.run, lambda: corruption.run(12)),
    "cut": (corruption.cut_off, lambda: corruption.cut_off(24, 40)),
    "damage": (damage.run, lambda: damage.run(10, 8)),
    "uploads": (uploads.run, lambda: uploads.run(100)),
    "rights": (rights.run, lambda: rights.run(10)),
    "memory": (memory.run, lambda: memory.run(4)),
    "slow readers": (writers.slowly, lambda: writers.slowly(1)),
    "recovery": (recovery.run, lambda: recovery.run(100_000, bars=False)),
}
"""Each kind of chaos, in full and in short."""


def main() -> int:
    """Run what was asked for, all of it by default; the exit code says whether everything was as promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*CHAOS, []], help="which; all by default")
    parser.add_argument("--short", action="store_true", help="a little of each")
    asked = parser.parse_args()
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", "people may refuse", UserWarning)
    bad = 0
    for kind in asked.kinds or CHAOS:
        found = CHAOS[kind][asked.short]()
        print(found, flush=True)
        bad += bool(found.problems)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
