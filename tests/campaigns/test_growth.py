"""A store does not slow down as it grows."""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median

from freepull.campaigns.stores.base import Lease, Store, connect


def ids(first: int, count: int) -> list[bytes]:
    return [n.to_bytes(16, "big") for n in range(first, first + count)]


def seconds(store: Store, lease: Lease) -> float:
    times = []
    for _ in range(15):  # more often than it takes PostgreSQL to keep a plan
        began = time.perf_counter()
        assert len(store.find_events(lease, ids(0, 20))) == 20
        times.append(time.perf_counter() - began)
    return median(times)


def test_event_ids_are_found_as_quickly_among_many_as_among_few(postgres: str) -> None:
    with closing(connect(postgres)) as store:
        lease = store.create("slots", "a", {"event_ids": [(it, 1, b"r" * 24, 10) for it in ids(0, 20)]})
        few = seconds(store, lease)
        store.write(lease, {"event_ids": [(it, 2, b"r" * 24, 10) for it in ids(20, 60_000)]})
        assert seconds(store, lease) < 10 * few
