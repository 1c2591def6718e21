"""Pictures inside a page, which then needs no other file."""

from __future__ import annotations

import base64
import io

from matplotlib import rc_context
from matplotlib.figure import Figure


def inline(figure: Figure) -> str:
    """Return a figure as the source of an image: letters as shapes, and the same text for the same figure."""
    file = io.BytesIO()
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "freepull"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
