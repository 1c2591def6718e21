"""Steps in which no rule looks: every lane plays its own bandit, two chunks at a time, as long as asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from freepull.compiling import jit
from freepull.simulation.compiled.picking import pick_chunk
from freepull.simulation.compiled.pulling import pull_chunk
from freepull.simulation.compiled.state import KIND, ROW


@jit
def observe(
    mean: Any, root: Any, cells: Any, keys: Any, arm: Any, chunks: Any, settings: Any, laws: Any, deep: Any,
    tables: Any, words: Any, work: Any, arms: int, after: int, until: int,
) -> None:  # fmt: skip
    """Play the steps after+1…until.

    Two chunks take turns, so that what one has stored is in the cache before it is loaded again as a vector.
    """
    K = np.uint64(arms)
    last = np.uint64(chunks.shape[0])
    pair = np.uint64(0)
    while pair < last:
        for t in range(after + 1, until + 1):
            for chunk in range(pair, min(pair + np.uint64(2), last)):
                kind, row, setting = chunks[chunk, KIND], chunks[chunk, ROW], settings[chunk]
                pick_chunk(mean, root, cells, keys, arm, laws, deep, tables, kind, row, setting, chunk, K, t)
                pull_chunk(mean, root, cells, keys, arm, laws, words, work, None, None, chunk, K)
        pair += np.uint64(2)
