"""How Sphinx builds the site: `make docs`. Nothing is fetched, neither now nor by a reader."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import dbdl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from dbdl_site.mathml import MathML  # noqa: E402
from dbdl_site.pages import write_pages  # noqa: E402

project = "dbdl"
author = "The dbdl developers"
copyright = "2026, the dbdl developers"
version = release = dbdl.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_templates",
    "images",
    "dbdl_site",
    "generated",
    "**/GALLERY_HEADER.rst",
]
templates_path = ["_templates"]
# In docstrings `name` is a link if it is one of ours, and otherwise code.
default_role = "py:obj"
# Ours are lists of names and shapes, such as "atoms_, components_ : ndarray".
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
html_math_renderer = "mathml"
smartquotes = False  # texts stay as they are typed: "unit " is a prefix, --quick an option
toc_object_entries_show_parents = "hide"  # fit(), not DBDLClassifier.fit(), beside a page

# ------------------------------------------------------------------------------------- Markdown

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4  # [text](page.md#heading) works on every platform that shows the page
nitpick_ignore_regex = [("py:.*", ".*")]  # names in docstrings need not be links; pages have to be

# -------------------------------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": [
        str(Path("..") / "examples" / name) for name in ("look_inside", "data", "decide", "compare")
    ],
    "within_subsection_order": "dbdl_site.figures.ByUse",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # its pages would fetch scripts
    "show_signature": False,
    "min_reported_time": 0,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "capture_repr": (),
    "thumbnail_size": (400, 280),
    "backreferences_dir": "gallery/used",
    "doc_module": ("dbdl",),
    "inspect_global_variables": False,
    "reset_modules": ("matplotlib", "dbdl_site.figures.reset"),
    "plot_gallery": True,
}

# ----------------------------------------------------------------------------------- appearance

html_theme = "pydata_sphinx_theme"
html_title = "dbdl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "text": "dbdl",
        "alt_text": "dbdl, home",
    },
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": True,
}
html_sidebars = {"index": [], "getting_started": [], "changelog": [], "methods": []}


def _escape_shapes(app, what, name, obj, options, lines):
    """Keep names such as n_features_in_ in shapes from being read as links."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"(?<=\bshape \()[^)]*(?=\))", lambda m: _escaped(m[0]), line)


def _escaped(text):
    return re.sub(r"_(?!\w)", r"\\_", text)


def _name_pages(app, docname, source):
    """Show the title of a page or heading where the plain file has [data.md](data.md#tables)."""
    source[0] = re.sub(r"\[(?:docs/)?(\w+\.md)\]\((\1(?:#[\w-]+)?)\)", r"[](\2)", source[0])


def setup(app):
    """Enrol what the site adds to Sphinx."""
    app.connect("source-read", _name_pages)
    app.connect("autodoc-process-docstring", _escape_shapes, priority=900)  # after numpydoc
    app.add_html_math_renderer("mathml", (MathML.visit, None), (MathML.visit_block, None))
    write_pages(HERE)  # now, before Sphinx looks for pages
