"""How Sphinx builds the site: MyST pages, the furo theme, and nothing loaded from another host."""

import re
from pathlib import Path

from sphinx.ext.napoleon import Config, NumpyDocstring

_init = Path(__file__).parent.parent / "src" / "freepull" / "version.py"
_version = re.search(r'__version__ = "([^"]+)"', _init.read_text(encoding="utf-8"))
if _version is None:
    raise ValueError(f"{_init} must set __version__.")

project = "freepull"
author = "The freepull developers"
copyright = "2026, The freepull developers"
release = version = _version.group(1)

# Formulas are Unicode text. No math extension is on, so no page asks for a script from a CDN.
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
smartquotes = False  # θ' is a prime, not an apostrophe
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures are shown, not linked
default_role = "code"
myst_ref_domains = ["std"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"freepull {release}"
html_show_sourcelink = False


def _read_parameters(app, what, name, obj, options, lines):
    """Read the section Parameters of a docstring; of an attribute, whose docstring may have a colon, nothing."""
    if what in ("class", "exception", "function", "method"):
        lines[:] = NumpyDocstring(lines, Config(napoleon_use_rtype=False), app, what, name, obj, options).lines()


def setup(app):
    """Hook into Sphinx."""
    app.connect("autodoc-process-docstring", _read_parameters)
