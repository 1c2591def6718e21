"""Who reads nothing of an answer, or watches with many pages, costs little and keeps nobody else out."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from freepull.server import hosting, middleware
from freepull.server.app import Application
from freepull.server.problems import Refused

PLOTLY = "/plotly.js"


def scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"x")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


class Reader:
    """Whoever gets an answer; one that is slow reads nothing after the first piece."""

    def __init__(self, slow: bool = False) -> None:
        self.status, self.pieces, self.going_on = 0, list[bytes](), asyncio.Event()
        if not slow:
            self.going_on.set()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self.pieces.append(message["body"])
        await self.going_on.wait()

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def get(self, app: Application, path: str) -> Reader:
        await app(scope(path), self.receive, self.send)
        return self


def test_long_answers_come_in_pieces_and_who_reads_none_takes_no_place(tmp_path: Path) -> None:
    app = Application(f"sqlite:///{tmp_path}/trial.db")
    whole = files("plotly.package_data").joinpath("plotly.min.js").read_bytes()

    async def use() -> None:
        found = await Reader().get(app, PLOTLY)
        assert b"".join(found.pieces) == whole
        assert max(len(it) for it in found.pieces) <= middleware.PIECE
        order = list[str]()
        several = [Reader() for _ in range(3)]
        for it in several:
            it.send = lambda message, it=it, plain=it.send: (order.append(str(id(it))), plain(message))[1]  # type: ignore
        await asyncio.gather(*(it.get(app, PLOTLY) for it in several))
        assert len(set(order[30:33])) == 3  # everybody has their turn after each piece
        slow = [Reader(slow=True) for _ in range(300)]  # more than may wait
        tasks = [asyncio.create_task(it.get(app, PLOTLY)) for it in slow]
        while not all(it.pieces for it in slow):
            await asyncio.sleep(0)
        assert {it.status for it in slow} == {200}
        assert sum(len(piece) for it in slow for piece in it.pieces) <= 300 * middleware.PIECE
        assert (await Reader().get(app, "/problems/401")).status == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(use())
    app.hosting.tokens.close()


def test_who_reads_slowly_is_not_cut_off_by_the_time_for_an_answer(tmp_path: Path) -> None:
    from freepull.server.auth import Limits

    app = Application(f"sqlite:///{tmp_path}/trial.db", Limits(answer=0.05))

    async def use() -> None:
        slow = Reader(slow=True)
        task = asyncio.create_task(slow.get(app, PLOTLY))
        await asyncio.sleep(0.15)
        slow.going_on.set()
        await task
        assert sum(map(len, slow.pieces)) > 1 << 20

    asyncio.run(use())
    app.hosting.tokens.close()


def test_one_token_has_a_share_of_the_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    class View:
        async def status(self) -> Any:
            await asyncio.Event().wait()

    async def use() -> None:
        watched = hosting.Streams(View())  # type: ignore[arg-type]
        lines = []
        for _ in range(hosting.WATCHERS_OF_ONE):
            watched.check("one")
            lines.append(watched.stream(-1, False, asyncio.Event(), lambda: True, "one"))
            await anext(lines[-1])
        with pytest.raises(Refused, match="with this token") as refused:
            watched.check("one")
        assert refused.value.status == 429
        watched.check("two")
        await lines[0].aclose()  # type: ignore[attr-defined]
        watched.check("one")
        monkeypatch.setattr(hosting, "WATCHERS", hosting.WATCHERS_OF_ONE - 1)
        with pytest.raises(Refused, match="people watch already") as refused:
            watched.check("two")
        assert refused.value.status == 503
        for line in lines:
            await line.aclose()  # type: ignore[attr-defined]
        assert watched.count == 0

    asyncio.run(use())
