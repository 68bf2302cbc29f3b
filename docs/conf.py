"""Settings of the documentation. ``make docs`` builds it; a warning is an error."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # examples are small: more threads are slower
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from gpclass import __version__  # noqa: E402  # after the number of threads is set

project = "gpclass"
author = "The gpclass developers"
copyright = "the gpclass developers"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "native_math",
    "plain_docstrings",
    "registry_tables",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
exclude_patterns = ["_build", "_ext", "auto_examples/*.py", "**/README.md", "paper.md"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["docs.css"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    "inherited-members": "BaseEstimator, ClassifierMixin, Kernel, Exception, Protocol, Warning, tuple"
}
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "code"  # docstrings use plain-text mathematics; single backquotes are code

html_theme = "pydata_sphinx_theme"
html_title = "gpclass"
SWITCHER = "_static/switcher.json"  # a release adds its row: each version stands in a folder of its own at the root
html_theme_options = {
    "switcher": {"json_url": SWITCHER, "version_match": "dev" if "dev" in version else version},
    "check_switcher": False,  # the theme would ask the network
    "navbar_persistent": ["search-button"],
    "navbar_end": ["version-switcher", "theme-switcher"],
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_show_sourcelink = False
alone = (
    "index",
    "start",
    "choosing",
    "coming_from",
    "command_line",
    "howto",
    "geostatistics",
    "architecture",
    "extending",
    "glossary",
    "changelog",
)
html_sidebars = {page: [] for page in alone}  # pages without siblings have no sidebar

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 5,
    "download_all_examples": False,
    "reference_url": {},
    "image_srcset": ["2x"],
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

doctest_global_setup = "import numpy as np"
linkcheck_ignore = []
