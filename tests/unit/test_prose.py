"""Each limit on prose sees what it is for, and nothing that is no prose."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_prose
from scripts.check_prose import measure, sentences, word_count
from scripts.markdown_pages import REPOSITORY, Page, documents

SHORT = "This is a sentence of seven words. "
LONG = "One " + " ".join(["two"] * 25) + ". "


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with no page yet."""
    monkeypatch.setattr(check_prose, "REPOSITORY", tmp_path)
    (tmp_path / "docs/how-to").mkdir(parents=True)
    return tmp_path


def faults(document: Path, text: str) -> list[str]:
    document.write_text(text)
    return list(measure(document).faults())


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One. Two? Three! Four", ["One.", "Two?", "Three!", "Four"]),
        ("It costs 2.5 s in version 1.12.0. Next", ["It costs 2.5 s in version 1.12.0.", "Next"]),
        ("See e.g. Airflow. It ends (here.) Then more.", ["See e.g. Airflow.", "It ends (here.)", "Then more."]),
        (
            'He said "no." Then code follows. code is a word.',
            ['He said "no."', "Then code follows.", "code is a word."],
        ),
        ("One; two: three, four", ["One; two: three, four"]),
        ("It takes 7 s. Then J. Smith goes.", ["It takes 7 s.", "Then J. Smith goes."]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(paragraph: str, expected: list[str]) -> None:
    assert list(sentences(paragraph)) == expected


def test_a_sign_between_spaces_is_no_word() -> None:
    assert word_count("a = b - c / d's e-f") == 5


def test_prose_is_what_stands_in_paragraphs_lists_and_quotations() -> None:
    text = (
        "# A heading. Two.\n\nA *paragraph* with `a.b. C` and [a link](x.md)\nin two lines.\n\n"
        "- An item.\n\n> A quote.\n\n| a cell. B |\n|---|\n| another. C |\n\n"
        "```\nCode. More.\n```\n\n    Indented. Code.\n\n<!-- A comment. Too. -->\n"
    )
    assert list(Page(text).prose()) == ["A paragraph with code and a link in two lines.", "An item.", "A quote."]


def test_words_are_those_of_headings_tables_and_prose_but_not_of_code() -> None:
    assert Page("# One two\n\n| three | four |\n|---|---|\n| five | `six 6` |\n\n```\nno\n```\n\nSeven.\n").words() == 7


def test_a_page_with_one_long_sentence_among_many_fails(pages: Path) -> None:
    (fault,) = faults(pages / "page.md", "\n".join([*[SHORT] * 40, LONG]))
    assert fault == f"page.md: 26 words, at most 25 are allowed: {LONG.strip()}"


def test_a_long_sentence_of_a_docstring_is_found_wherever_it_stands(pages: Path) -> None:
    long, field = LONG.strip(), f"x.\n    :param b: {LONG.strip()}"
    code = "``a. B`` :class:`~x.Y` " * 12
    (pages / "a.py").write_text(
        f'"""{long}"""\nclass A:\n    """Short.\n\n    {field}\n    :param c: {code}.\n    """\n'
        f'async def b():\n    """Short.\n\n    - an item\n    - {long}\n    """\n'
        f'def c():\n    """Short::\n\n        {long}\n    """\n    return """{long}"""\n'
    )
    assert check_prose.long_in_docstrings([pages / "a.py"]) == [f"a.py: 26 words: {long}"] * 3


def test_docstrings_may_have_no_more_long_sentences_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_prose, "MOST_LONG_IN_DOCSTRINGS", 1)
    assert check_prose.docstring_faults(["a"]) == []
    assert check_prose.docstring_faults(["a", "b"]) == ["docstrings: 2 long sentences, at most 1 are allowed:\na\nb"]


def test_the_docstrings_of_the_package_keep_the_bound_which_is_lowered_with_them() -> None:
    long = check_prose.long_in_docstrings(sorted((REPOSITORY / "airflow_lake_provider").rglob("*.py")))
    assert check_prose.docstring_faults(long) == []
    # Those who rewrite some at once need not agree on the number.
    assert len(long) >= check_prose.MOST_LONG_IN_DOCSTRINGS - 10


def test_a_line_that_is_too_long_is_named(pages: Path) -> None:
    (fault,) = faults(pages / "page.md", f"# Title\n\n- {'x' * 109}\n")
    assert fault.startswith("page.md:3: the line has 111 characters")


@pytest.mark.parametrize(
    "text",
    [
        f"| {'x' * 200} |\n|---|\n| {'y' * 200} |\n",
        f"```bash\n{'x' * 200}\n```\n",
        f"- item\n\n  ```bash\n  {'x' * 200}\n  ```\n",
        f"See [this](https://example.com/{'x' * 200}).\n",
        f"![A picture](pictures/{'x' * 200}.svg)\n",
    ],
)
def test_tables_code_and_links_may_be_long(pages: Path, text: str) -> None:
    assert faults(pages / "page.md", text) == []


def test_a_how_to_has_a_limit_of_its_own(pages: Path) -> None:
    text = "\n".join([SHORT] * 115)  # 805 words
    assert faults(pages / "page.md", text) == []
    (fault,) = faults(pages / "docs/how-to/page.md", text)
    assert fault == "docs/how-to/page.md: a how-to of 805 words; at most 800 are allowed"


def test_the_table_ends_with_the_sum_of_all_pages(pages: Path) -> None:
    (pages / "a.md").write_text(SHORT)
    (pages / "b.md").write_text(LONG)
    *_, last = check_prose.table([measure(pages / "a.md"), measure(pages / "b.md")])
    assert last.split() == ["2", "1", "50.0", "%", "104", "33", "all", "pages"]


def test_the_pages_of_this_repository_keep_every_limit() -> None:
    assert check_prose.faults(measure(document) for document in documents()) == []
