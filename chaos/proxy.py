"""A wire to PostgreSQL that can be cut when a write passes: before it arrives, or before its answer comes back."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path


class Proxy:
    """Passes bytes between a client and a server, until it is told to cut."""

    def __init__(self, sockets: Path, folder: Path) -> None:
        self.server = str(sockets / ".s.PGSQL.5432")
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self.cut: str | None = None
        """When the next write to the log is cut: "before" or "after"; None for not at all."""
        self.cuts = 0
        self._sides: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            self._sides += [client, server]
            server.connect(self.server)
            threading.Thread(target=self._up, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self.cut is not None and b"INTO segments" in data:
                    when, self.cut = self.cut, None
                    self.cuts += 1
                    _end(client)
                    if when == "after":
                        server.sendall(data)
                        server.shutdown(socket.SHUT_WR)
                        while server.recv(1 << 16):
                            pass
                    _end(server)
                    return
                server.sendall(data)
        _end(server)

    def _pass(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        _end(client)

    def close(self) -> None:
        """Accept nobody else, and close every wire."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()
        for side in self._sides:
            side.close()


def _end(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
