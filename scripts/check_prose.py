"""Measure the prose of pages and docstrings against limits: long sentences, long lines, and the words of a how-to.

Headings, tables and blocks of code are no prose. A sentence ends with a full stop, a question or an exclamation mark
before a space and the beginning of another one, or with its paragraph. In a docstring a field is a paragraph.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.markdown_pages import REPOSITORY, Page, documents

WORDS_PER_SENTENCE = 25
# Of the package's docstrings. The number may only fall: a page has none.
MOST_LONG_IN_DOCSTRINGS = 20
CHARACTERS_PER_LINE = 110
WORDS_PER_HOW_TO = 800

# What may stand between the full stop and the space: a bracket or a quotation mark that closes.
SENTENCE_END = re.compile(r"""[.?!]["')\]*_]*\s+(?=["'(\[*_]*[A-Z0-9]|code\b)""")
ABBREVIATION = re.compile(r"\b(?:(?i:e\.g|i\.e|etc|vs|cf|approx|no|fig)|[A-Z])\.$")
WORD = re.compile(r"\w")
# A field, as ``:param name:``, and an item of a list begin one.
DOCSTRING_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=:\w|[-*] )")
DOCSTRING_FIELD = re.compile(r"^:[^:]+:\s+|^[-*] ")
DOCSTRING_CODE = re.compile(r"``.+?``|:\w+:`[^`]+`", re.DOTALL)


@dataclass(frozen=True)
class Measure:
    """Counts of one page.

    :param sentences: how many there are.
    :param long: those with more words than a sentence may have.
    :param longest_line: characters of the longest line of prose, and ``line`` its number.
    :param words: what is read, with tables and headings.
    :param is_how_to: the page has a limit of its own.
    """

    path: str
    sentences: int
    long: tuple[str, ...]
    longest_line: int
    line: int
    words: int
    is_how_to: bool

    @property
    def percent(self) -> float:
        """Share of long sentences."""
        return 100 * len(self.long) / self.sentences if self.sentences else 0.0

    def faults(self) -> Iterator[str]:
        """Yield which limits the page exceeds, and by how much."""
        for sentence in self.long:
            yield f"{self.path}: {word_count(sentence)} words, at most {WORDS_PER_SENTENCE} are allowed: {sentence}"
        if self.longest_line > CHARACTERS_PER_LINE:
            yield (
                f"{self.path}:{self.line}: the line has {self.longest_line} characters; outside tables, code and links "
                f"at most {CHARACTERS_PER_LINE} are allowed"
            )
        if self.is_how_to and self.words > WORDS_PER_HOW_TO:
            yield f"{self.path}: a how-to of {self.words} words; at most {WORDS_PER_HOW_TO} are allowed"


def sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph.

    :param paragraph: plain text.
    """
    start = 0
    for end in SENTENCE_END.finditer(paragraph):
        sentence = paragraph[start : end.end()].strip()
        if not ABBREVIATION.search(sentence):
            yield sentence
            start = end.end()
    if paragraph[start:].strip():
        yield paragraph[start:].strip()


def word_count(sentence: str) -> int:
    """Count words; a dash or an equals sign alone is none.

    :param sentence: plain text.
    """
    return sum(1 for word in sentence.split() if WORD.search(word))


def measure(document: Path) -> Measure:
    """Count what a page has.

    :param document: a file of Markdown in the repository.
    """
    page = Page(document.read_text(encoding="utf-8"))
    every = [sentence for paragraph in page.prose() for sentence in sentences(paragraph)]
    line, longest = max(page.prose_lines(), key=lambda each: len(each[1]), default=(0, ""))
    path = document.relative_to(REPOSITORY)
    return Measure(
        path=str(path),
        sentences=len(every),
        long=tuple(sentence for sentence in every if word_count(sentence) > WORDS_PER_SENTENCE),
        longest_line=len(longest),
        line=line,
        words=page.words(),
        is_how_to=path.parts[:2] == ("docs", "how-to"),
    )


def docstring_paragraphs(docstring: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring as plain text; code in a line is the word ``code``.

    :param docstring: without its indentation.
    """
    before = ""
    for paragraph in DOCSTRING_PARAGRAPH.split(docstring):
        # What comes after two colons, or goes on indented, is code. A tree is drawn.
        is_code, before = before.endswith("::") or paragraph.startswith(" " * 4), paragraph
        if not is_code and "├──" not in paragraph:
            yield " ".join(DOCSTRING_CODE.sub("code", DOCSTRING_FIELD.sub("", paragraph)).split())


def long_in_docstrings(sources: Iterable[Path]) -> list[str]:
    """Return the long sentences of docstrings, each with its file.

    :param sources: files of Python.
    """
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{source.relative_to(REPOSITORY)}: {word_count(sentence)} words: {sentence}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, with_docstring)
        for paragraph in docstring_paragraphs(ast.get_docstring(node) or "")
        for sentence in sentences(paragraph)
        if word_count(sentence) > WORDS_PER_SENTENCE
    ]


def docstring_faults(long: Sequence[str]) -> list[str]:
    """Return whether docstrings have more long sentences than they may.

    :param long: each of them.
    """
    if len(long) <= MOST_LONG_IN_DOCSTRINGS:
        return []
    shown = "\n".join(long)
    return [f"docstrings: {len(long)} long sentences, at most {MOST_LONG_IN_DOCSTRINGS} are allowed:\n{shown}"]


def table(measures: Iterable[Measure]) -> Iterator[str]:
    """Yield a line for each page, and one for all of them.

    :param measures: one for each page.
    """
    yield f"{'sentences':>9} {'> 25 words':>10} {'share':>7} {'longest line':>12} {'words':>6}  page"
    pages = list(measures)
    count, long = sum(each.sentences for each in pages), sum(len(each.long) for each in pages)
    for each in pages:
        counts = f"{each.sentences:9} {len(each.long):10} {each.percent:5.1f} %"
        yield f"{counts} {each.longest_line:12} {each.words:6}  {each.path}"
    share = 100 * long / count if count else 0.0
    longest = max((each.longest_line for each in pages), default=0)
    yield f"{count:9} {long:10} {share:5.1f} % {longest:12} {sum(each.words for each in pages):6}  all pages"


def faults(measures: Iterable[Measure]) -> list[str]:
    """Return which limits are exceeded, and where.

    :param measures: one for each page.
    """
    return [fault for each in measures for fault in each.faults()]


def main() -> None:
    """Print the measures of all pages and which limits are exceeded; ``--sentences`` adds long ones of docstrings."""
    measures = [measure(document) for document in documents()]
    in_docstrings = long_in_docstrings(sorted((REPOSITORY / "airflow_lake_provider").rglob("*.py")))
    print("\n".join(table(measures)))
    if "--sentences" in sys.argv[1:]:
        print("\n".join(in_docstrings))
    exceeded = faults(measures) + docstring_faults(in_docstrings)
    print("\n".join([*exceeded, f"{len(exceeded)} limits exceeded"]))
    sys.exit(bool(exceeded))


if __name__ == "__main__":
    main()
