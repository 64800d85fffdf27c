"""Parse a Markdown page: its prose, its links and the anchors of its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

REPOSITORY = Path(__file__).resolve().parents[1]
# CommonMark with the tables of code hosts.
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NO_PROSE = {"fence", "code_block", "html_block"}
HTML_IMAGE = re.compile(r'\bsrc(?:set)?="([^"]*)"')
LINK_TARGET = re.compile(r"\]\([^)\s]*\)")


def documents() -> list[Path]:
    """Return the pages that are checked: those at the root, and all below ``docs/``."""
    return sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])


@dataclass(frozen=True)
class Page:
    """A page of Markdown.

    :param text: its source.
    """

    text: str

    @cached_property
    def tokens(self) -> list[Token]:
        """The blocks of the page, in their order."""
        return PARSER.parse(self.text)

    def links(self) -> Iterator[str]:
        """Yield the target of every link and picture outside code, also of pictures in HTML."""
        for token in self.tokens:
            if token.type == "html_block":
                yield from HTML_IMAGE.findall(token.content)
            for child in token.children or []:
                target = child.attrGet("href") if child.type == "link_open" else child.attrGet("src")
                if target is not None:
                    yield str(target)

    def anchors(self) -> set[str]:
        """Return the anchors of the headings, made the way that code hosts make them."""
        anchors: set[str] = set()
        for title in self._inline("heading_open"):
            slug = re.sub(r"[^\w\- ]", "", _spoken(title, code=True).lower()).replace(" ", "-")
            repeats = (f"{slug}-{number}" for number in range(1, len(anchors) + 1))
            anchors.add(slug if slug not in anchors else next(each for each in repeats if each not in anchors))
        return anchors

    def prose(self) -> Iterator[str]:
        """Yield each paragraph, also of lists and quotations, as plain text; code in a line is the word ``code``."""
        for paragraph in self._inline("paragraph_open"):
            yield _spoken(paragraph, code=False)

    def words(self) -> int:
        """Count the words that are read: all but blocks of code."""
        inline = (token for token in self.tokens if token.type == "inline")
        return sum(len(_spoken(token, code=False).split()) for token in inline)

    def prose_lines(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line outside code and tables; of a link only the words that are read."""
        skipped: set[int] = set()
        for token in self.tokens:
            if token.map and (token.type in NO_PROSE or token.type == "table_open"):
                skipped.update(range(*token.map))
        for index, line in enumerate(self.text.splitlines()):
            if index not in skipped:
                yield index + 1, LINK_TARGET.sub("]", line.rstrip()).replace("![", "[")

    def _inline(self, opening: str) -> Iterator[Token]:
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before.type == opening and token.type == "inline":
                yield token


def _spoken(inline: Token, *, code: bool) -> str:
    """Return what a reader reads of a line of tokens.

    :param code: keep the text of code; otherwise it is one word, whatever dots are in it.
    """
    spoken = {"softbreak": " ", "hardbreak": " ", "html_inline": ""}
    parts = []
    for child in inline.children or []:
        is_code = child.type == "code_inline" and not code
        parts.append("code" if is_code else spoken.get(child.type, child.content))
    return "".join(parts)
