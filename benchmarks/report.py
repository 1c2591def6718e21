"""The findings as a table on the terminal and as a page of the documentation."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import llvmlite.binding
from rich.console import Console
from rich.table import Table

from .findings import Findings, Row

PACKAGES = ("freepull", "numpy", "numba", "llvmlite")
READING = (
    "An *agent-step* is one agent who picks an arm, pulls it and learns from it; times are medians, ratios are medians "
    "of the ratios of repetitions made in turn, M×K stands for M agents and K arms, and the *bar* is what we hold "
    "ourselves to."
)


def machine() -> str:
    """The processor, in words that name no host."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = named[0] if named else model
    features = llvmlite.binding.get_host_cpu_features()
    vectors = next((name for name, flag in (("AVX-512", "avx512f"), ("AVX2", "avx2")) if features.get(flag)), "")
    cores = f"{os.cpu_count()} cores" + (f", {vectors}" if vectors else "")
    return f"{model} ({llvmlite.binding.get_host_cpu_name()}, {cores}), {platform.system()}"


def versions(found: Findings) -> str:
    """Everything whose version matters."""
    ours = {name: version(name) for name in PACKAGES}
    named = {"Python": platform.python_version(), **ours, **found.versions}
    return ", ".join(f"{name} {number}" for name, number in named.items())


def verdict(row: Row) -> str:
    """Whether a bar was met, in a word."""
    return {True: "met", False: "missed", None: ""}[row.met]


def show(found: Findings, console: Console) -> None:
    """Print the table."""
    table = Table("", "bar", "measured", "", "", title="freepull's benchmarks")
    for part, rows in groupby(found.rows, key=lambda row: row.part):
        table.add_section()
        table.add_row(f"[bold]{part}[/bold]")
        for row in rows:
            colour = {True: "green", False: "red", None: "default"}[row.met]
            table.add_row(f"  {row.what}", row.bar, row.measured, f"[{colour}]{verdict(row)}[/{colour}]", row.detail)
    console.print(table)
    for note in found.notes:
        console.print(f"• {note}")


def write(found: Findings, docs: Path, picture: str) -> Path:
    """Write the page and return its path."""
    bars = [row for row in found.rows if row.met is not None]
    untold = sum(row.measured == "cannot tell" for row in found.rows)
    lines = [
        "# Benchmarks",
        "",
        f"`make bench` wrote this page on {datetime.date.today():%d %B %Y}. Machine: {machine()}. Versions: "
        f"{versions(found)}. {sum(bool(row.met) for row in bars)} of {len(bars)} bars are met"
        + (f"; {untold} could not be told." if untold else "."),
        "",
        READING,
        "",
        *(f"- {note}" for note in found.notes),
        "",
        f"![ns per agent-step, all programs side by side]({picture})",
    ]
    for part, rows in groupby(found.rows, key=lambda row: row.part):
        lines += ["", f"## {part[0].upper()}{part[1:]}", "", "| | bar | measured | | |", "|---|---|---|---|---|"]
        lines += [f"| {row.what} | {row.bar} | {row.measured} | {verdict(row)} | {row.detail} |" for row in rows]
    page = docs / "benchmarks.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page
