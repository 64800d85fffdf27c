"""Settings of the documentation site; ``scripts/docs`` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

# Sphinx looks for the package and for docs/extensions on the path, and starts in this folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from airflow_lake_provider import __version__

project = "airflow-lake-provider"
project_copyright = "The authors of airflow-lake-provider, Apache License 2.0"
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docs.extensions.linked_pages",
    "docs.extensions.operator_facts",
]

exclude_patterns = ["extensions"]
nitpicky = True
# Airflow's, Spark's and Python's own names are documented elsewhere, and the site is built without a network.
nitpick_ignore = [("py:class", name) for name in ("date", "datetime", "timedelta", "XComArg", "RetryPolicy")]
nitpick_ignore += [
    ("py:class", name) for name in ("JobSpec", "ListedTable", "LoadedTable", "ObjectStoragePath", "Path")
]
nitpick_ignore += [("py:exc", "AirflowFailException")]
nitpick_ignore_regex = [(r"py:.*", r"(?!airflow_lake_provider\.)\w+(\.\w+)+")]

# Anchors as code hosts make them, so that one link serves both.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
# As written: a default may be a constant's name or read the machine's settings.
autodoc_preserve_defaults = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 80

html_theme = "pydata_sphinx_theme"
html_title = f"{project} {release}"
html_theme_options = {
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_copy_source = False
