"""A disk in memory that forgets what was not synced: SQLite's files, and what is left of them after a power cut."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import apsw

SECTOR = 512


@dataclass
class File:
    """What programs see, what is safe, and the writes in between."""

    seen: bytearray = field(default_factory=bytearray)
    safe: bytearray | None = None
    """None while not even the file's name is safe."""
    unsynced: list[tuple[int, bytes] | int] = field(default_factory=list)
    """Writes (where, what) and truncations (to which size) since the last sync."""

    def after_cut(self, rng: random.Random) -> bytearray | None:
        """Return what is left: each unsynced write is there, is not, or is torn; an unsafe name may be gone."""
        if self.safe is None and rng.random() < 0.5:
            return None
        left = bytearray(self.safe or b"")
        for change in self.unsynced:
            fate = rng.random()
            if fate < 0.4:
                continue
            if isinstance(change, int):
                _resize(left, change)
            else:
                where, what = change
                if fate < 0.6:
                    what = what[: SECTOR * rng.randrange(1 + len(what) // SECTOR)]
                _write(left, where, what)
        return left


class Disk:
    """Files by name; the power goes off at a given change, and from then on nothing works."""

    def __init__(self, name: str, files: dict[str, bytearray] | None = None, cut_at: int | None = None) -> None:
        self.name = name
        self.files = {path: File(bytearray(data), bytearray(data)) for path, data in (files or {}).items()}
        self.changes, self.cut_at = 0, cut_at
        self.vfs = _Vfs(self)

    @property
    def off(self) -> bool:
        """Whether the power is off."""
        return self.cut_at is not None and self.changes >= self.cut_at

    def change(self) -> None:
        """Count a change of the disk, or refuse it."""
        self.changes += 1
        self.check()

    def check(self) -> None:
        """Refuse everything once the power is off."""
        if self.off:
            raise apsw.IOError("the power is off")

    def after_cut(self, rng: random.Random) -> dict[str, bytearray]:
        """Return the files that are left."""
        left = {path: file.after_cut(rng) for path, file in self.files.items()}
        return {path: data for path, data in left.items() if data is not None}


class _Vfs(apsw.VFS):
    """SQLite's view of the disk."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.name, "", exclude={"xSetSystemCall", "xGetSystemCall", "xNextSystemCall"})
        self.disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _Handle:  # type: ignore[override]
        self.disk.check()
        path = f"temporary {id(flags)}" if name is None else name if isinstance(name, str) else name.filename()
        if path not in self.disk.files:
            self.disk.change()
            self.disk.files[path] = File()
        flags[1] = flags[0]
        return _Handle(self.disk, self.disk.files[path])

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self.disk.files

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.disk.change()
        if filename not in self.disk.files:
            raise apsw.IOError("no such file")
        del self.disk.files[filename]


class _Handle:
    """An open file."""

    def __init__(self, disk: Disk, file: File) -> None:
        self.disk, self.file = disk, file

    def xRead(self, amount: int, offset: int) -> bytes:
        self.disk.check()
        return bytes(self.file.seen[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.change()
        self.file.unsynced.append((offset, bytes(data)))
        _write(self.file.seen, offset, data)

    def xTruncate(self, newsize: int) -> None:
        self.disk.change()
        self.file.unsynced.append(newsize)
        _resize(self.file.seen, newsize)

    def xSync(self, flags: int) -> None:
        self.disk.change()
        self.file.safe = bytearray(self.file.seen)
        self.file.unsynced.clear()

    def xFileSize(self) -> int:
        return len(self.file.seen)

    def xLock(self, level: int) -> None:
        return

    def xUnlock(self, level: int) -> None:
        return

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xClose(self) -> None:
        return


def _write(data: bytearray, where: int, what: bytes) -> None:
    if len(data) < where:
        data.extend(bytes(where - len(data)))
    data[where : where + len(what)] = what


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))
