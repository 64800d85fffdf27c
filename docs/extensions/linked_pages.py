"""Let one Markdown serve the site and the readers of a code host.

A list item of an ``index.md`` that begins with a link to a page makes that page a child in the tree of the site. A link
to a page that is in the repository but not on the site becomes a download. A ``<picture>`` with a dark and a light file
becomes two images, of which the theme shows one.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ITEM = re.compile(r"^- \[[^\]]*\]\((?P<page>[^)#:\s]+)\.md\)", re.MULTILINE)
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)">\s*</picture>'
)
LINK = re.compile(r"\]\((?P<page>\.\./[^)#:\s]+\.md)(?:#[^)\s]*)?\)")


def children(name: str, text: str) -> list[str]:
    """Return the pages below a page, from the root of the site.

    :param name: the page, such as ``how-to/index``.
    :param text: its Markdown.
    """
    folder = posixpath.dirname(name)
    return ["/" + posixpath.normpath(posixpath.join(folder, found["page"])) for found in ITEM.finditer(text)]


def with_tree(name: str, text: str) -> str:
    """Return the source of a page; of an index with the tree of its children, which the sidebars show.

    :param name: the page, such as ``how-to/index``.
    :param text: its Markdown.
    """
    found = children(name, text) if PurePosixPath(name).name == "index" else []
    return text + "\n".join(["\n```{toctree}", ":hidden:", "", *found, "```\n"]) if found else text


def with_downloads(name: str, text: str) -> str:
    """Return the source of a page in which links to pages outside the site are downloads.

    :param name: the page, such as ``how-to/index``.
    :param text: its Markdown.
    """

    def target(link: re.Match[str]) -> str:
        outside = posixpath.normpath(posixpath.join(posixpath.dirname(name), link["page"])).startswith("../")
        return f"](path:{link['page']})" if outside else link[0]

    return LINK.sub(target, text)


def with_images(text: str) -> str:
    """Return the source of a page in which a picture of two files is two images of the theme.

    :param text: its Markdown.
    """

    def images(picture: re.Match[str]) -> str:
        return "\n".join(
            f"```{{image}} {picture[name]}\n:alt: {picture['alt']}\n:class: only-{name}\n```\n"
            for name in ("light", "dark")
        )

    return PICTURE.sub(images, text)


def _on_source_read(_app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = with_tree(name, with_images(with_downloads(name, source[0])))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _on_source_read)
    return {"parallel_read_safe": True}
