"""The same study on a Dask cluster: workers simulate, and this process alone writes to the folder.

A worker that dies loses nothing but time: what it was at is given to another one, and a run is a function of the study
and its number, so the bits are the same.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from freepull.errors import FreepullError, StudyError
from freepull.simulation import Result
from freepull.studies.chunks import Chunk
from freepull.studies.progress import Advance
from freepull.version import __version__

PATIENCE = 30
"""Seconds to wait for the scheduler, and for its first worker."""


def play(chunks: Sequence[Chunk], address: str, advance: Advance) -> Iterator[tuple[Chunk, Result]]:
    """Give all chunks to the cluster, and yield them as they are finished."""
    if not chunks:
        return
    with _connected(address) as client:
        futures = {client.submit(Chunk.play, chunk, pure=False): chunk for chunk in chunks}
        try:
            for future in _finished(client, list(futures)):
                chunk, result = futures.pop(future), _checked(future, address)
                advance(chunk.cell, len(chunk.runs))
                yield chunk, result
        finally:
            client.cancel(list(futures))


def _finished(client: Any, futures: list[Any]) -> Iterator[Any]:
    import distributed

    ordered: Any = distributed.as_completed
    return iter(ordered(futures, loop=client.loop))


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise StudyError("scheduler needs Dask; install it with: pip install 'freepull[cluster]'.") from None
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(f"scheduler {address} cannot be reached: {error}; give one that runs.") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise StudyError(f"scheduler {address} has no workers; start some and run the study again.") from None
        yield client


def _checked(future: Any, address: str) -> Result:
    """Return what a worker found, if its freepull and its machine are of the same kind as ours."""
    from distributed import CancelledError

    try:
        result: Result = future.result()
    except FreepullError:
        raise
    except (Exception, CancelledError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise StudyError(f"the cluster at {address} failed ({what}); run the study again to continue it.") from None
    told = result.provenance
    theirs, ours = (told["freepull"], told["machine"]["architecture"]), (__version__, platform.machine())
    if theirs != ours:
        words = [f"freepull {version} on {machine}" for version, machine in (theirs, ours)]
        raise StudyError(f"a worker of {address} has {words[0]}, not {words[1]} as here; install the same everywhere.")
    return result
