"""How Sphinx builds the site: MyST pages, scripts that are run, and nothing loaded from another host."""

import html
import os
import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import desc_signature
from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_gallery.sorting import ExplicitOrder

ROOT = Path(__file__).parent.parent
_version = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/freepull/version.py").read_text(encoding="utf-8"))
if _version is None:
    raise ValueError("src/freepull/version.py must set __version__.")

project = "freepull"
author = "The freepull developers"
copyright = "2026, The freepull developers"
release = version = _version.group(1)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "*/sg_execution_times.rst", "sg_execution_times.rst"]
smartquotes = False  # θ' is a prime, not an apostrophe
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures are shown, not linked
default_role = "code"
myst_ref_domains = ["std"]
myst_enable_extensions = ["dollarmath"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

TUTORIALS = (
    "first_simulation",
    "plan_a_trial",
    "run_with_people",
    "write_an_agent",
    "reproduce_a_figure",
    "study_on_dask",
)
"""In the order in which a newcomer reads them."""
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")  # Dask sets its levels when it is loaded
warnings.filterwarnings("ignore", category=UserWarning, message="FigureCanvasAgg is non-interactive")
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/gallery"],
    "gallery_dirs": ["tutorials", "gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": ExplicitOrder([*(f"{name}.py" for name in TUTORIALS), "*"]),
    "run_stale_examples": True,  # a page shows what this version does, not what an earlier one did
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = f"freepull {release}"
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["freepull.css"]
html_math_renderer = "mathml"
# versions side by side, where the host that serves them says which it is building
if os.environ.get("READTHEDOCS_VERSION_TYPE") == "tag":
    html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")


def _read_parameters(app, what, name, obj, options, lines):
    """Read the section Parameters of a docstring; of an attribute, whose docstring may have a colon, nothing."""
    if what in ("class", "exception", "function", "method"):
        lines[:] = NumpyDocstring(lines, Config(napoleon_use_rtype=False), app, what, name, obj, options).lines()


MATHML, ACCENTS = "http://www.w3.org/1998/Math/MathML", ("ˆ", "~", "˜", "¯", "ˉ")
APPLIED = "\u2061"
"""The invisible sign after the name of a function."""
CLOSING = ("'", ")", "]")
ElementTree.register_namespace("", MATHML)


def _space(tree):
    """Space a formula as TeX does: nothing around a slash, something around log where no bracket is."""
    for row in list(tree.iter()):
        for n, sign in reversed(list(enumerate(row))):
            if sign.text == "/":
                sign.attrib |= {"lspace": "0", "rspace": "0"}
            elif sign.text == APPLIED:
                before, after = row[: n - 1][-1:], row[n + 1 : n + 2]
                if after and "".join(after[0].itertext()).strip()[:1] not in "([|":
                    sign.set("rspace", "0.17em")
                if before and (before[0].text in CLOSING or not before[0].tag.endswith(("}mo", "}mspace", "}mtext"))):
                    row.insert(n - 1, ElementTree.Element(f"{{{MATHML}}}mspace", width="0.17em"))


def mathml(tex, block=False):
    """Return a formula as MathML, which browsers typeset themselves; an index of x̂ stands beside it, not below."""
    told = re.sub(r"&(?!lt;|gt;|amp;)\w+;", lambda entity: html.unescape(entity[0]), tex2mathml(tex, as_block=block))
    tree = ElementTree.fromstring(told)
    for found in list(tree.iter(f"{{{MATHML}}}munderover")):
        letter, index, accent = found
        if accent.text in ACCENTS:
            found.tag = f"{{{MATHML}}}msub"
            found[:] = [ElementTree.Element(f"{{{MATHML}}}mover"), index]
            found[0][:] = [letter, accent]
    _space(tree)
    return ElementTree.tostring(tree, encoding="unicode")


def _inline(self, node):
    """Write a formula in a line."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(self, node):
    """Write a formula of its own."""
    self.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


_SIGN = r"(?:[A-Za-z0-9α-ω][\u0300-\u036f]*|[*∞])"
_BRACKETED = r"\(((?:[^()]|\([^()]*\))*)\)"
_PLAIN = rf"((?:\d+\.\d+|{_SIGN}{{1,3}}(?:,[a-z*]{{1,2}})?)(?![A-Za-z0-9]))"
_MOVED = re.compile(rf"([_^])(?:\{{([^{{}}]*)\}}|{_BRACKETED}|{_PLAIN})")
_BASE = re.compile(r"(?:(?<![A-Za-z0-9_])(?:max|min|tv|CB|KL|10|[^\W_])[\u0300-\u036f]*['⁺]?|[)\]])$")
AS_TYPED = (nodes.literal, nodes.FixedTextElement, nodes.math, nodes.raw, desc_signature)


def indexed(text):
    """Return a text as nodes, with what stands behind a sign as N_km or e^{−x} below or above the line."""
    found, told = [], 0
    for it in _MOVED.finditer(text):
        sign, braced, bracketed, plain = it.groups()
        named = sign == "_" and (bracketed is not None or text[it.end() : it.end() + 1] == "_")
        before = text[: it.start()]
        if named or not (_BASE.search(before) or (sign == "^" and before[-1:].isalpha())):
            continue
        kind = nodes.subscript if sign == "_" else nodes.superscript
        inside = next(part for part in (braced, bracketed, plain) if part is not None)
        found += [nodes.Text(text[told : it.start()]), kind("", "", *indexed(inside))]
        told = it.end()
    return [it for it in (*found, nodes.Text(text[told:])) if it.astext()]


class Indices(SphinxPostTransform):
    """Set the indices and powers of signs within sentences and tables."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_):
        """Look at every text that is not code or a formula."""
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            while parent is not None and not isinstance(parent, AS_TYPED):
                parent = parent.parent
            if parent is None and len(signs := indexed(text.astext())) > 1:
                text.parent.replace(text, signs)


def setup(app):
    """Hook into Sphinx."""
    app.add_post_transform(Indices)
    app.connect("autodoc-process-docstring", _read_parameters)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
