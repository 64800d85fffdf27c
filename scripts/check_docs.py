"""Check the Markdown of the repository: links, anchors, and the code it includes from elsewhere.

Code is included as a fenced block below a marker, and has to be the file, character for character::

    <!-- include: dags/ingest_orders.py -->
    ```python
    ...
    ```

A part of a file lies between the lines ``# [START name]`` and ``# [END name]`` and is included as
``<!-- include: dags/ingest_orders.py#name -->``. ``--write`` brings all included code up to date, and makes the pages
that are made from code.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from scripts.capabilities_page import capabilities_page
from scripts.markdown_pages import REPOSITORY, Page, documents
from scripts.policy_page import policy_page

INCLUDE = re.compile(
    r"^<!-- include: (?P<what>\S+) -->\n(?P<open>```\w*\n)(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
MARKER = re.compile(r"^<!-- include: (\S+) -->", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
MADE: Mapping[str, Callable[[], str]] = {
    "docs/reference/capabilities.md": capabilities_page,
    "docs/reference/policy.md": policy_page,
}
TAG = re.compile(r"^ *# \[(?:START|END) \w+\]\n", re.MULTILINE)


def included_code(what: str) -> str:
    """Return the text that ``path`` or ``path#name`` stands for.

    :raises LookupError: there is no such file, or no such part of it.
    """
    path, _, part = what.partition("#")
    file = REPOSITORY / path
    if not file.is_file():
        raise LookupError(f"includes {path}, which does not exist")
    text = file.read_text()
    if part:
        # What parts a class from the line behind it is not of the class.
        match = re.search(rf"^ *# \[START {part}\]\n(.*?\n)\n*^ *# \[END {part}\]$", text, re.MULTILINE | re.DOTALL)
        if not match:
            raise LookupError(f"includes the part {part!r} of {path}, which has no # [START {part}] and # [END {part}]")
        text = textwrap.dedent(match[1])
    return TAG.sub("", text)


def with_current_code(text: str) -> str:
    """Return a document with all included code as it is now."""
    return INCLUDE.sub(lambda m: f"<!-- include: {m['what']} -->\n{m['open']}{included_code(m['what'])}```", text)


def include_faults(text: str) -> Iterator[str]:
    """Yield what is wrong with a document's included code."""
    for match in INCLUDE.finditer(text):
        try:
            if included_code(match["what"]) != match["code"]:
                yield f"the code of {match['what']} is out of date; scripts/docs --write renews it"
        except LookupError as error:
            yield str(error)
    if len(MARKER.findall(FENCE.sub("", text))) != len(INCLUDE.findall(text)):
        yield "has an include marker without a fenced block right below it"


def made_faults(document: Path, text: str) -> Iterator[str]:
    """Yield what is wrong with a page that is made from code."""
    make = MADE.get(str(document.relative_to(REPOSITORY)))
    if make is not None and make() != text:
        yield "is not what it is made from any more; python -m scripts.check_docs --write makes it again"


def link_faults(document: Path, text: str) -> Iterator[str]:
    """Yield the links of a document that lead nowhere inside the repository."""
    for link in Page(text).links():
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.is_relative_to(REPOSITORY) or not target.exists():
            yield f"links to {link}, which is not there"
        elif anchor and target.suffix == ".md" and anchor not in Page(target.read_text()).anchors():
            yield f"links to {link}, but {target.name} has no such heading"


def faults(document: Path) -> list[str]:
    """Return what is wrong with a document, each as a sentence that begins with its path."""
    text = document.read_text()
    return [
        f"{document.relative_to(REPOSITORY)}: {fault}"
        for fault in (*include_faults(text), *made_faults(document, text), *link_faults(document, text))
    ]


def main() -> None:
    """Check all documents, after renewing included code when asked to."""
    parser = argparse.ArgumentParser(description="Check links, anchors and included code of the documentation.")
    parser.add_argument("--write", action="store_true", help="bring included code up to date first")
    if parser.parse_args().write:
        for name, make in MADE.items():
            (REPOSITORY / name).write_text(make())
        for document in documents():
            document.write_text(with_current_code(document.read_text()))
    all_faults = [fault for document in documents() for fault in faults(document)]
    print("\n".join([*all_faults, f"{len(documents())} documents, {len(all_faults)} faults"]))
    sys.exit(bool(all_faults))


if __name__ == "__main__":
    main()
