"""Counters for Prometheus: numbers only, no names, so they may be read by anybody who can reach the port."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freepull.service.house import House

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """What this process has done since it began."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._observations = 0

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[route, method, status] += 1
        self._seconds += seconds
        self._buckets[bisect_left(BUCKETS, seconds)] += 1

    def observations(self, count: int) -> None:
        """Count pulls that were told."""
        self._observations += count

    def text(self, house: House, waiting: int) -> str:
        """Return everything as Prometheus reads it."""
        lines = ["# TYPE freepull_requests_total counter"]
        for (route, method, status), count in sorted(self._requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            lines.append(f"freepull_requests_total{{{labels}}} {count}")
        total = sum(self._requests.values())
        lines.append("# TYPE freepull_request_seconds histogram")
        upto = accumulate(self._buckets)
        lines += [f'freepull_request_seconds_bucket{{le="{it}"}} {next(upto)}' for it in BUCKETS]
        lines.append(f'freepull_request_seconds_bucket{{le="+Inf"}} {total}')
        lines += [f"freepull_request_seconds_sum {self._seconds:.6f}", f"freepull_request_seconds_count {total}"]
        here = house.here().values()
        for name, kind, value in (
            ("observations_total", "counter", self._observations),
            ("requests_waiting", "gauge", waiting),
            ("campaigns_owned", "gauge", len(here)),
            ("viewers", "gauge", sum(found.viewers.count for found in here)),
        ):
            lines += [f"# TYPE freepull_{name} {kind}", f"freepull_{name} {value}"]
        return "\n".join(lines) + "\n"
