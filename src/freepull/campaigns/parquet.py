"""What a Parquet file would unpack to, as its footer and the heads of its pages say, before any of it is unpacked.

Some kilobytes may stand for gigabytes: pages that unpack to a thousand times their size, one page that is named a
thousand times, values that repeat the one before. The footer may say less than the pages do, so every page of a column
is looked at: a decoder gives it as much memory as its head says, and ends where there is more in it. What decoders
believe beyond that, the number of values, how long they are and how they are encoded, is looked at too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

MAGIC = b"PAR1"
LARGEST_FOOTER, LARGEST_HEAD = 1 << 20, 1 << 16
"""Bytes. Files of half a million rows that others write have footers of some kilobytes."""
MOST_PAGES, MOST_FIELDS, DEEPEST = 10_000, 10_000, 10
FIXED, WIDEST = 7, 32
"""The type of values of a fixed length, and how long these may be: decimals and UUIDs are."""
ENCODINGS = {0: "plain", 2: "dictionary", 3: "run lengths", 5: "differences", 8: "dictionary", 9: "split bytes"}
"""How values may be encoded. Where each is made from the one before (7), or lengths stand apart from values (6), a few
bytes are gigabytes; nobody writes that unless asked to."""
DATA, DICTIONARY, DATA_2 = 0, 2, 3
Fields = dict[int, Any]


class Thrift:
    """Reads what Thrift's compact protocol has written: fields by their numbers."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> Fields:
        """Read a struct."""
        found, number = Fields(), 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            found[number] = kind == 1 if kind < 3 else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        if kind <= 3:
            return self._byte()
        if kind <= 6:
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._whole())
        if kind in (9, 10):
            head = self._byte()
            count = self._whole() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"it has a field of type {kind}")

    def _byte(self) -> int:
        self.at += 1
        if self.at > len(self.data):
            raise ValueError("it is cut off")
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("it is cut off")
        return self.data[self.at - count : self.at]

    def _whole(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise ValueError("it has a number without an end")

    def _signed(self) -> int:
        found = self._whole()
        return found >> 1 ^ -(found & 1)


@dataclass(frozen=True)
class Chunk:
    """The values of one column in one group of rows."""

    column: str
    nested: bool
    width: int
    """Of values of a fixed length."""
    begin: int
    size: int
    """Where in the file its pages are, and their bytes."""
    rows: int


@dataclass(frozen=True)
class Footer:
    """What a file says of itself as a whole."""

    rows: int
    chunks: list[Chunk]


def footer(file: BinaryIO) -> Footer:
    """Read the footer; a `ValueError` says what is wrong with it."""
    end = file.seek(0, 2) - 8
    file.seek(max(0, end))
    last = file.read(8)
    size = int.from_bytes(last[:4], "little")
    if end < 4 or last[4:] != MAGIC:
        raise ValueError("it does not end as such a file does")
    if size > min(end - 4, LARGEST_FOOTER):
        raise ValueError(f"its footer has {size:,} bytes, and there may be {LARGEST_FOOTER:,}")
    file.seek(end - size)
    found = Thrift(file.read(size)).struct()
    leaves, chunks, rows = _leaves(found[2]), list[Chunk](), 0
    for group in found.get(4, []):
        if len(group[1]) != len(leaves) or not 0 <= group[3] <= found[3]:
            raise ValueError("its groups of rows are not what its schema says")
        rows += group[3]
        for (column, nested, kind, width), chunk in zip(leaves, group[1], strict=True):
            meta = chunk[3]
            begin, length = meta.get(11, meta[9]), meta[7]
            if begin < 4 or length < 0 or begin + length > end - size:
                raise ValueError(f"its column {column} lies outside of the file")
            chunks.append(Chunk(column, nested, width if kind == FIXED else 0, begin, length, group[3]))
    if rows != found[3]:
        raise ValueError("its groups have not got as many rows as it says")
    return Footer(rows, chunks)


def _leaves(schema: list[Fields]) -> list[tuple[str, bool, int, int]]:
    """Return every column that has values: in which one of the first level, whether below it, type and width."""
    found, open_groups, name = list[tuple[str, bool, int, int]](), [schema[0].get(5, 0)], ""
    if len(schema) > MOST_FIELDS:
        raise ValueError(f"it has {len(schema):,} fields, and there may be {MOST_FIELDS:,}")
    for field in schema[1:]:
        while open_groups and open_groups[-1] <= 0:
            open_groups.pop()
        if not open_groups or len(open_groups) > DEEPEST:
            raise ValueError("its schema is no tree, or too deep a one")
        open_groups[-1] -= 1
        if len(open_groups) == 1:
            name = field[4].decode()
        if field.get(5, 0):
            open_groups.append(field[5])
        else:
            found.append((name, len(open_groups) > 1, field[1], field.get(2, 0)))
    if any(open_groups):
        raise ValueError("its schema is cut off")
    return found


def unpacked(file: BinaryIO, told: Footer, columns: Collection[str], most: int) -> int:
    """Return how many bytes some columns unpack to, as every page says; more than ``most`` need not be all."""
    size, pages = 0, 0
    for chunk in told.chunks:
        if chunk.column not in columns:
            continue
        if chunk.nested or chunk.width > WIDEST:
            raise ValueError(f"its column {chunk.column} must hold texts or numbers")
        values = 0
        for head in _pages(file, chunk):
            pages += 1
            size += int(head[2])
            if size > most:
                return size
            if pages > MOST_PAGES:
                raise ValueError(f"it has more than {MOST_PAGES:,} pages; write it with fewer groups of rows")
            values += _values(chunk, head)
        if values != chunk.rows:
            raise ValueError(f"its column {chunk.column} has {values:,} values for {chunk.rows:,} rows")
    return size


def _pages(file: BinaryIO, chunk: Chunk) -> Iterator[Fields]:
    """Return the heads of the pages of a chunk."""
    at, end = chunk.begin, chunk.begin + chunk.size
    while at < end:
        file.seek(at)
        reading = Thrift(file.read(min(LARGEST_HEAD, end - at)))
        head = reading.struct()
        at += reading.at + head[3]
        if head[2] < 0 or head[3] < 0 or at > end:
            raise ValueError(f"a page of its column {chunk.column} has not got the size that it says")
        yield head


def _values(chunk: Chunk, head: Fields) -> int:
    """Return how many rows a page has values for, none if it is a dictionary."""
    kind = head[1]
    if kind == DICTIONARY:
        if not 0 <= 4 * head[7][1] <= head[2]:
            raise ValueError(f"the dictionary of its column {chunk.column} has more values than bytes")
        return 0
    about = head[5] if kind == DATA else head[8] if kind == DATA_2 else {}
    encoding = about.get(2 if kind == DATA else 4)
    if encoding not in ENCODINGS:
        raise ValueError(f"its column {chunk.column} has encoding {encoding}; write it with plain values")
    levels = [about[5], about[6]] if kind == DATA_2 else []
    if about[1] < 0 or any(it < 0 for it in levels) or sum(levels) > min(head[2], head[3]):
        raise ValueError(f"a page of its column {chunk.column} is wrong")
    return int(about[1])
