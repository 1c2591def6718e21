"""How Sphinx builds the site: MyST pages, the furo theme, and nothing loaded from another host."""

import re
from pathlib import Path

_init = Path(__file__).parent.parent / "src" / "freepull" / "version.py"
_version = re.search(r'__version__ = "([^"]+)"', _init.read_text(encoding="utf-8"))
if _version is None:
    raise ValueError(f"{_init} must set __version__.")

project = "freepull"
author = "The freepull developers"
copyright = "2026, The freepull developers"
release = version = _version.group(1)

# Formulas are Unicode text. No math extension is on, so no page asks for a script from a CDN.
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
smartquotes = False  # θ' is a prime, not an apostrophe
nitpicky = True

html_theme = "furo"
html_title = f"freepull {release}"
html_show_sourcelink = False
