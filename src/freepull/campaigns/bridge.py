"""From the writer's thread to asyncio: all answers of a commit wake the loop together, once."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

Reply = TypeVar("Reply")


class _Answers:
    """Answers on their way to one loop, which it does not keep from being forgotten."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._awake = ref(loop), False
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()

    def add(self, mine: asyncio.Future[Any], theirs: Future[Any]) -> None:
        """Take an answer, in any thread; wake the loop, unless it is being woken already."""
        self._done.append((mine, theirs))
        loop = self._loop()
        if loop is not None and not self._awake:
            self._awake = True
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._awake = False
        while self._done:
            mine, theirs = self._done.popleft()
            if mine.done():
                continue
            error = theirs.exception()
            if error is None:
                mine.set_result(theirs.result())
            else:
                mine.set_exception(error)


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Answers] = WeakKeyDictionary()


def awaited(theirs: Future[Reply]) -> asyncio.Future[Reply]:
    """Return an answer of a writer as something that the running loop can await."""
    loop = asyncio.get_running_loop()
    answers = _LOOPS.get(loop)
    if answers is None:
        answers = _LOOPS[loop] = _Answers(loop)
    mine: asyncio.Future[Reply] = loop.create_future()
    theirs.add_done_callback(lambda it: answers.add(mine, it))
    return mine
