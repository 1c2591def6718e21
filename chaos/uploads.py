"""Files that mean no good: each is read or refused in a sentence, in little memory, by a process that lives on.

Some kilobytes that unpack to gigabytes, footers and pages that lie, columns without end, and bytes that were flipped.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from freepull.campaigns import files
from freepull.errors import InvalidInput

from .outcome import Finding, finding

TEXT, NUMBER = 6, 5
"""Parquet's types of byte arrays and doubles."""
PLAIN, FROM_THE_LAST = 0, 7
CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed")
ROOM, GROWTH = 1 << 30, 300
"""What a process may have beside what it has already, in bytes; and by how many MB it may grow."""


class Long(int):
    """A number of 64 bits."""


def thrift(fields: dict[int, Any]) -> bytes:
    """Write a struct in Thrift's compact protocol."""
    written, last = b"", 0
    for number, value in fields.items():
        assert 0 < number - last < 16
        written += bytes([(number - last) << 4 | _kind(value)]) + _value(value)
        last = number
    return written + b"\0"


def _kind(value: Any) -> int:
    kinds = {bytes: 8, list: 9, dict: 12, Long: 6, int: 5}
    return kinds[type(value)]


def _value(value: Any) -> bytes:
    if isinstance(value, dict):
        return thrift(value)
    if isinstance(value, bytes):
        return whole(len(value)) + value
    if isinstance(value, list):
        kind = _kind(value[0])
        return bytes([0xF0 | kind]) + whole(len(value)) + b"".join(map(_value, value))
    return whole(value << 1 ^ value >> 63)


def whole(value: int) -> bytes:
    """Write a number, seven bits at a time."""
    written = b""
    while value > 127:
        written, value = written + bytes([value & 127 | 128]), value >> 7
    return written + bytes([value])


@dataclass
class Page:
    """The one page of a column."""

    values: int
    data: bytes
    kind: int = TEXT
    encoding: int = PLAIN
    says: int | None = None
    """How many bytes it says that it has, if not as many as it has."""
    packed: bytes | None = None
    """What stands for it in the file, if not what it holds, compressed."""

    @classmethod
    def of(cls, *texts: bytes) -> Page:
        """Make a page of texts."""
        return cls(len(texts), b"".join(len(it).to_bytes(4, "little") + it for it in texts))

    @classmethod
    def repeated(cls, text: bytes, count: int) -> Page:
        """Make a page in which every value is the one before."""
        lengths = _differences(0, len(text), count), _differences(len(text), -len(text), count)
        return cls(count, b"".join(lengths) + text, encoding=FROM_THE_LAST)

    @classmethod
    def zeros(cls, size: int) -> Page:
        """Make a page of one text of so many zeros, in pieces that are compressed once."""
        deflate = zlib.compressobj(9, wbits=-15)
        begin = deflate.compress(size.to_bytes(4, "little")) + deflate.flush(zlib.Z_FULL_FLUSH)
        piece = deflate.compress(bytes(1 << 24)) + deflate.flush(zlib.Z_FULL_FLUSH)
        packed = b"\x1f\x8b\x08" + bytes(7) + begin + piece * (size >> 24) + b"\x03\0" + bytes(8)
        return cls(1, b"", says=size + 4, packed=packed)

    def written(self) -> bytes:
        """Return its head, and what it holds, compressed."""
        packed = gzip.compress(self.data, 9, mtime=0) if self.packed is None else self.packed
        about = {1: self.values, 2: self.encoding, 3: 3, 4: 3}
        return thrift({1: 0, 2: len(self.data) if self.says is None else self.says, 3: len(packed), 5: about}) + packed


def _differences(first: int, then: int, count: int) -> bytes:
    """Encode a number, another one that differs from it by so much, and many that are like that."""
    least = min(0, then)
    width = (then - least if then > 0 else -least).bit_length()
    head = whole(128) + whole(4) + whole(count) + whole(first << 1 ^ first >> 63)
    steps = [then - least] + [-least] * (count - 2)
    blocks = b""
    for begin in range(0, len(steps), 128):
        part = steps[begin : begin + 128]
        minis = [part[i : i + 32] for i in range(0, len(part), 32)]
        bits = [sum(it << (width * i) for i, it in enumerate(mini)).to_bytes(4 * width, "little") for mini in minis]
        widths = bytes([width] * len(minis) + [0] * (4 - len(minis)))
        blocks += whole((least << 1 ^ least >> 63) & (1 << 64) - 1) + widths + b"".join(bits)
    return head + blocks


def parquet(pages: dict[str, Page], groups: int = 1, rows: int | None = None, deep: int = 0, wide: int = 0) -> bytes:
    """Write a file of some columns, whose one page is that of every group of rows."""
    written, columns = b"PAR1", list[dict[int, Any]]()
    for name, page in pages.items():
        at, found = len(written), page.written()
        written += found
        about = {1: page.kind, 2: [page.encoding], 3: [name.encode()], 4: 2, 5: Long(page.values)}
        about |= {6: Long(1000), 7: Long(len(found)), 9: Long(at)}
        columns.append({2: Long(at), 3: about})
    count = next(iter(pages.values())).values
    group = {1: columns, 2: Long(1000), 3: Long(count)}
    schema: list[dict[int, Any]] = [{4: b"root", 5: len(pages) + wide + (deep > 0)}]
    texts = {TEXT: {6: 0}, NUMBER: dict[int, Any]()}
    schema += [{1: page.kind, 3: 0, 4: name.encode(), **texts[page.kind]} for name, page in pages.items()]
    schema += [{1: NUMBER, 3: 0, 4: b"c%d" % i} for i in range(wide)]
    schema += [{3: 0, 4: b"d", 5: 1} for _ in range(deep - 1)] + [{1: NUMBER, 3: 0, 4: b"d"}] * (deep > 0)
    said = Long(groups * count if rows is None else rows)
    footer = thrift({1: 1, 2: schema, 3: said, 4: [group] * groups})
    return written + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def pull(agent: Page, count: int = 1) -> dict[str, Page]:
    """Return the columns of pulls by an agent."""
    return {"agent": agent, "arm": Page.of(*[b"A"] * count), "reward": Page(count, bytes(8 * count), NUMBER)}


LARGE = b"a" * (8 << 20)
BOMBS: dict[str, Callable[[], bytes]] = {
    "one page in a hundred groups.parquet": lambda: parquet(pull(Page.of(LARGE)), groups=100),
    "a page of a gigabyte.parquet": lambda: parquet(pull(Page.zeros(1 << 30))),
    "values from the last.parquet": lambda: parquet(pull(Page.repeated(b"a" * 50_000, 20_000), 20_000)),
    "a page that says much.parquet": lambda: parquet(pull(Page(1, b"\1\0\0\0a", says=(1 << 31) - 1))),
    "a page that says little.parquet": lambda: parquet(pull(Page(1, Page.of(LARGE).data, says=5))),
    "a page that says nothing.parquet": lambda: parquet(pull(Page(1, Page.of(LARGE).data, says=-1))),
    "more values than rows.parquet": lambda: parquet(pull(Page(1 << 30, b"\1\0\0\0a"))),
    "rows that are not there.parquet": lambda: parquet(pull(Page.of(b"ann")), rows=1 << 40),
    "fewer rows than there are.parquet": lambda: parquet(pull(Page.of(b"ann")), groups=5, rows=1),
    "too deep.parquet": lambda: parquet(pull(Page.of(b"ann")), deep=40_000),
    "too wide.parquet": lambda: parquet(pull(Page.of(b"ann")), wide=100_000),
    "a header without end.csv": lambda: b"agent,arm,reward" + b"," * 20_000_000,
    "a quoted header.csv": lambda: b'agent,arm,reward,"\n' + b'","' * 5_000_000,
    "compressed.csv": lambda: gzip.compress(b"agent,arm,reward\n" + b"ann,A,0.5\n" * 10_000_000),
    "zeros.csv": lambda: bytes(30_000_000),
    "blank lines.csv": lambda: b"agent,arm,reward\n" + b"\n" * 30_000_000,
}
"""Files of some kilobytes, or of at most as many bytes as can be sent, each of which must be refused."""


def flipped(count: int, seed: int = 5) -> Iterator[tuple[str, bytes]]:
    """Return good Parquet files in which some bytes were changed."""
    chance, good = random.Random(seed), list[bytes]()
    frame = pl.DataFrame(
        {
            "agent": [f"user-{i % 7}" for i in range(500)],
            "arm": ["A", "B"] * 250,
            "reward": [i / 500 for i in range(500)],
        }
    ).with_columns(event=pl.int_range(500), other=pl.lit("x"))
    with tempfile.TemporaryDirectory() as folder:
        for codec in CODECS:
            frame.write_parquet(Path(folder) / "it.parquet", compression=codec, row_group_size=200)  # type: ignore[arg-type]
            good.append((Path(folder) / "it.parquet").read_bytes())
    for i in range(count):
        data = bytearray(good[i % len(good)])
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        for _ in range(chance.choice([1, 1, 3, 20])):
            place = chance.randrange(footer, len(data)) if chance.random() < 0.6 else chance.randrange(len(data))
            data[place] = chance.choice([0, 255, 127, 128, data[place] ^ 1 << chance.randrange(8)])
        yield f"flipped {i}.parquet", bytes(data)


def run(flips: int = 3_000) -> Finding:
    """Read every file in a process of its own, or in that of the one before while that lives."""
    with finding(f"{len(BOMBS)} files that unpack to much, and {flips:,} with flipped bytes") as found:
        outcomes, grown, waiting = Counter[str](), 0.0, 0
        with tempfile.TemporaryDirectory() as folder:
            for name, make in BOMBS.items():
                (Path(folder) / name).write_bytes(make())
            names = list(BOMBS)
            for name, data in flipped(flips):
                (Path(folder) / name).write_bytes(data)
                names.append(name)
            while waiting < len(names):
                for name, outcome, more in _read(folder, names[waiting:]):
                    waiting += 1
                    grown = max(grown, more)
                    kind = outcome.partition(":")[0]
                    outcomes[kind] += 1
                    right = kind == "refused" or (kind == "read" and name not in BOMBS)
                    found.demand(right, f"{name}: {outcome}")
                    found.demand(more <= GROWTH, f"{name} takes {more:,.0f} MB")
        found.figures |= {**outcomes, "most memory (MB)": grown}
        return found


def _read(folder: str, names: list[str]) -> Iterator[tuple[str, str, float]]:
    """Let a process read files until it is done, or dies."""
    command = [sys.executable, "-m", "chaos.uploads", folder]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1], text=True, **pipes)
    said, noise = process.communicate("\n".join(names))
    lines = [json.loads(line) for line in said.splitlines()]
    yield from ((name, outcome, grown) for name, outcome, grown in lines)
    if len(lines) < len(names):
        yield names[len(lines)], f"died: with {process.returncode}, {noise[-300:]}", 0.0


def _work(folder: str) -> None:
    """Read the files that are named; say what came of each, and by how many MB this process has grown by then."""
    with tempfile.TemporaryDirectory() as own:
        good = Path(own) / "good.parquet"
        good.write_bytes(parquet(pull(Page.of(b"ann"))))
        assert files.read(good).rows() == [("ann", "A", 0.0)]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    before = _most()
    for name in sys.stdin.read().splitlines():
        try:
            outcome = f"read: {files.read(Path(folder) / name).height}"
        except InvalidInput as error:
            outcome = f"refused: {error}" if str(error).endswith(".") and "\n" not in str(error) else f"odd: {error}"
        except BaseException as error:
            outcome = f"raised: {type(error).__name__}: {error}"
        print(json.dumps((name, outcome, _most() - before)), flush=True)


def _most() -> float:
    """The most memory that this process has had, in MB."""
    words = Path("/proc/self/status").read_text().split()
    return int(words[words.index("VmHWM:") + 1]) / 1000


if __name__ == "__main__":
    _work(sys.argv[1])
