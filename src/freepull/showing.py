"""How results, plans and verdicts look in a notebook: plain tables, without a style or a script of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def number(value: object) -> str:
    """Return a value in words; numbers with four digits that count.

    >>> number(1234.5678), number(0.00012345), number(True), number(None)
    ('1,235', '0.0001234', 'yes', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return a table as HTML; whatever stands in it is text.

    >>> table("a < b", ["x"], [[1.5]])
    '<table><caption>a &lt; b</caption><thead><tr><th>x</th></tr></thead><tbody><tr><td>1.5</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(number(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<table>{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{below}"
