"""Check the built site: every link leads to a page and an anchor, and the reference has every public parameter."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs.extensions.public_names import named, own_parameters, public_names


class Anchors(HTMLParser):
    """Collect what a page links to, and which anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's link and id.

        :param tag: name of the element.
        :param attrs: its attributes.
        """
        attributes = dict(attrs)
        self.ids.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        link = attributes.get("src") or (attributes.get("href") if tag in ("a", "link") else None)
        if link:
            self.links.append(link)


def pages(site: Path) -> list[Path]:
    """Return the pages of a site; the theme keeps templates of its own below ``_static``.

    :param site: folder of the built site.
    """
    return [page for page in sorted(site.rglob("*.html")) if "_static" not in page.relative_to(site).parts]


@cache
def read(page: Path) -> Anchors:
    """Return the links and anchors of a page.

    :param page: a file of HTML.
    """
    anchors = Anchors()
    anchors.feed(page.read_text(encoding="utf-8"))
    return anchors


def missing_names(site: Path) -> Iterator[str]:
    """Yield the public classes, functions and parameters that the pages of the reference do not show.

    :param site: folder of the built site.
    """
    texts = [page.read_text(encoding="utf-8") for page in (site / "reference" / "python").glob("*.html")]
    for path in public_names():
        begun = [text.partition(f'id="{path}"')[2] for text in texts if f'id="{path}"' in text]
        if len(begun) != 1:
            yield f"{path}: the reference has it {len(begun)} times"
            continue
        entry = begun[0].partition('<section id="')[0]
        missing = [name for name in own_parameters(named(path)) if f"<strong>{name}</strong>" not in entry]
        if missing:
            yield f"{path}: the reference lacks {', '.join(missing)}"


def dead_links(site: Path) -> Iterator[str]:
    """Yield the links that lead nowhere.

    :param site: folder of the built site.
    """
    for page in pages(site):
        for link in read(page).links:
            path, anchor = unquote(urlsplit(link).path), unquote(urlsplit(link).fragment)
            if re.match(r"[a-z]+:|//", link):
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{page.relative_to(site)}: links to {link}, which is not there"
            elif anchor and target.suffix == ".html" and anchor not in read(target).ids:
                yield f"{page.relative_to(site)}: links to {link}, but there is no such anchor"


def faults(site: Path) -> list[str]:
    """Return what is wrong with a site, each once.

    :param site: folder of the built site.
    """
    return sorted({*dead_links(site), *missing_names(site)})


def main() -> None:
    """Check the site in the folder that is given."""
    site = Path(sys.argv[1]).resolve()
    all_faults = faults(site)
    print("\n".join([*all_faults, f"{len(pages(site))} pages of the site, {len(all_faults)} faults"]))
    sys.exit(bool(all_faults))


if __name__ == "__main__":
    main()
