"""The check of the documentation sees what it is for, and the documentation passes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import check_docs
from scripts.markdown_pages import documents

REPOSITORY = Path(__file__).parents[2]
SEAMS = (
    "architecture",
    *(f"explanation/{name}" for name in ("sources", "envelopes", "strategies", "formats", "actions")),
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one DAG file, which has a named part."""
    monkeypatch.setattr(check_docs, "REPOSITORY", tmp_path)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags/x.py").write_text("a = 1\n# [START part]\nb = 2\n# [END part]\n")
    return tmp_path


def include(what: str, code: str) -> str:
    return f"<!-- include: {what} -->\n```python\n{code}```\n"


def test_the_documents_of_this_repository_have_no_fault() -> None:
    assert [fault for document in documents() for fault in check_docs.faults(document)] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (include("dags/x.py", "a = 2\n"), "out of date"),
        (include("dags/x.py#part", "b = 3\n"), "out of date"),
        (include("dags/y.py", ""), "does not exist"),
        (include("dags/x.py#other", ""), "has no # [START other]"),
        ("<!-- include: dags/x.py -->\n\nno block\n", "without a fenced block"),
        ("[a](missing.md)", "is not there"),
        ("[a](../outside.md)", "is not there"),
        ("# One\n\n[a](#two)", "no such heading"),
        ("# One\n\n# One\n\n[a](#one-2)", "no such heading"),
        ("[a][b]\n\n[b]: missing.md", "is not there"),
        ("![a](missing.svg)", "is not there"),
    ],
)
def test_a_fault_is_named(repository: Path, text: str, fault: str) -> None:
    document = repository / "page.md"
    document.write_text(text)
    (found,) = check_docs.faults(document)
    assert found.startswith("page.md: ")
    assert fault in found


@pytest.mark.parametrize(
    "text",
    [
        include("dags/x.py", "a = 1\nb = 2\n"),
        include("dags/x.py#part", "b = 2\n"),
        "# What `x` is, and why\n\n[a](#what-x-is-and-why) [b](dags/x.py) [c](https://example.com)",
        "# One\n\n# One\n\n[a](#one-1)",
        "```\n[a](missing.md)\n```\n",
        "Write `[a](missing.md)`.",
    ],
)
def test_what_is_right_passes(repository: Path, text: str) -> None:
    document = repository / "page.md"
    document.write_text(text)
    assert check_docs.faults(document) == []


def test_writing_renews_the_code_and_nothing_else(repository: Path) -> None:
    stale = f"before\n\n{include('dags/x.py#part', 'old')}\nafter\n".replace("old```", "old\n```")
    assert repository.exists()
    assert check_docs.with_current_code(stale) == f"before\n\n{include('dags/x.py#part', 'b = 2' + chr(10))}\nafter\n"


def files_named(text: str) -> set[str]:
    """Return the files and folders that a page names as code: ``a/b.py``, ``b.py`` and ``a/``."""
    named = re.findall(r"`((?:\.\./)?[\w./]*(?:\w\.py|\w/))`", text)
    return {name.removeprefix("../") for name in named}


@pytest.mark.parametrize("page", SEAMS)
def test_each_file_that_a_page_on_the_design_names_is_there(page: str) -> None:
    folders = ("airflow_lake_provider", "dags", "docs", "scripts", "tests")
    there = [path for folder in folders for path in ((REPOSITORY / folder), *(REPOSITORY / folder).rglob("*"))]
    paths = [f"/{path.relative_to(REPOSITORY)}{'/' if path.is_dir() else ''}" for path in there]
    named = files_named((REPOSITORY / f"docs/{page}.md").read_text())
    assert named
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in paths)} == set()


def test_files_are_named_by_path_by_name_and_as_folders() -> None:
    text = "`a/b.py` and `b.py`, in `a/` or `../a/`; not `b`, `b.yaml` or `lake.run-key`, nor run_job.py"
    assert files_named(text) == {"a/b.py", "b.py", "a/"}


def test_a_decision_and_the_one_that_changes_it_both_say_so() -> None:
    named = {}
    for page in (REPOSITORY / "docs" / "decisions").glob("0*.md"):
        status = re.search(r"\*\*Status\*\*: (.+?)\n\n", page.read_text(), re.DOTALL)
        assert status, f"{page.name} has no status"
        named[page.name] = set(re.findall(r"\]\((0\d+-[\w-]+\.md)\)", status[1]))
    one_sided = {(page, other) for page, others in named.items() for other in others if page not in named[other]}
    assert one_sided == set()
