"""Names are the field's words: the words of our own that they took the place of do not come back.

Looked at are names of files, of everything in the syntax trees, and texts that are one name, as form fields are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "airflow_lake_provider"
FOLDERS = ("airflow_lake_provider", "dags", "scripts", "tests")
SOURCES = sorted(source for folder in FOLDERS for source in (REPOSITORY / folder).rglob("*.py"))

# A word that went, as a pattern over whole parts of a name in snake case, to the field's word.
WORDS = {
    "(moved|followed|follow)_head": "concurrent commit, rebase",
    "follow_(appends|conflicts)|refuse_moved": "rebase, refuse_concurrent_commit",
    "landing|land|lands|landed": "commit route, committed",
    "mark(ed)?_rows?|marked|marks_rows|without_marks": "position deletes, deletion vectors, write_deletes",
    "held_rows?|still_held(_by)?": "retained rows, retained_by",
    "commit_witness|witness|settle[sd]?": "lost report, resolve",
    "news|no_news|quiet|patience": "new snapshot, skip reason, event threshold",
    "table_memory|^memory$": "applied state",
    "touched(_files)?": "scan tasks",
    "idle(_equality)?_deletes": "dangling deletes",
    "tied(_rows)?": "ambiguous order",
    "folds?|folded(_changes)?|folding": "aggregated changes",
    "is_blind|blind": "ignores_existing_row",
    "^and_those$|parted": "union, split_by_file",
    "answer_(file|to_json|from_plain)|(write|read)_answer": "report file",
    "semantics": "merge engine, merge rules",
    "keep_(for|last|stage_branches_for)": "older_than, retain_last, stage_branches_older_than",
    "add_and_widen": "evolve",
    "^(seen|old)_(events|times|partition)$|led_ts_ms": "event positions, commit times, events below a mark",
    "(two|earlier|new|old)_(life|lives)": "log of the source",
    "^told_(as_ours|changes|deletes|of_file|repeated|retries)$|^tell_of_retries$": "lake errors, key changes, log",
    "^told_by_(a_version|the_history)$": "applied_by_version, applied_by_history",
    "^is_told_(by|otherwise)$|^known_to$": "is covered by a position, possibly consumed by",
    "^held_(settings|target)$": "owner settings, target size owner",
    "^(outer|nothing)_said$|^said_by$": "text, message, one line",
    "wrong_option": "refused option",
    "branch_lines": "branch histories",
}
# Words that any value could have; what a value is says more. With an underscore, or in capitals, they say no more.
EMPTY_WORDS = {"found", "told", "said", "wrong", "held", "known"}
# Files that still bind them, and how often. The list may only shrink.
BINDING = {
    "iceberg/owner_settings.py": 2,
    "iceberg/snapshot_retention.py": 2,
    "iceberg/table_check.py": 1,
    "planning/early_refusals.py": 1,
    "tables/detect_new_snapshot.py": 1,
}
ANY_WORD = re.compile(rf"(?<![a-z0-9])({'|'.join(WORDS)})(?![a-z0-9])")
TEXT_THAT_IS_A_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")

JAVAS_NAME = re.compile(r"[a-z]+[A-Z]\w*")


def snake(name: str) -> str:
    """Return a name in snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def words_in(name: str) -> list[str]:
    """Return the words of the list that are whole parts of a name."""
    spelled = snake(name).strip("_")
    if not ANY_WORD.search(spelled):
        return []
    return [word for word in WORDS if re.search(rf"(?<![a-z0-9])({word})(?![a-z0-9])", spelled)]


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file gives to anything, and texts that are one name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Name):
            yield node.id
        # In camel case a name is Java's.
        elif isinstance(node, ast.Attribute) and not JAVAS_NAME.fullmatch(node.attr):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.Constant) and TEXT_THAT_IS_A_NAME.fullmatch(str(node.value)):
            yield str(node.value)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_name_has_a_word_that_went(source: Path) -> None:
    if source == Path(__file__):
        return
    named = {*names_in(ast.parse(source.read_text())), *source.relative_to(REPOSITORY).with_suffix("").parts}
    assert {name: words for name in sorted(named) if (words := words_in(name))} == {}


def bound_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield names that code binds, with their lines: variables, fields, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def empty_words(source: Path) -> list[str]:
    """Return where a file binds a word that any value could have."""
    bound = bound_in(ast.parse(source.read_text()))
    return [f"{source.name}:{line} {name}" for name, line in bound if name.strip("_").lower() in EMPTY_WORDS]


def test_what_the_package_binds_is_named_by_what_it_is() -> None:
    places = {
        str(source.relative_to(PACKAGE)): words
        for source in SOURCES
        if source.is_relative_to(PACKAGE) and (words := empty_words(source))
    }
    more = {file: words for file, words in places.items() if len(words) > BINDING.get(file, 0)}
    assert more == {}
    fewer = {file: len(places.get(file, [])) for file in BINDING if len(places.get(file, [])) < BINDING[file]}
    assert fewer == {}, "take them off the list"


@pytest.mark.parametrize(
    "code",
    [
        "held = 1",
        "def _found(): pass",
        "async def told(): pass",
        "class A:\n    known: int = 1",
        "class Known: pass",
        "self._said = None",
        "def f(*, wrong): pass",
        "[found for found in ()]",
        "_KNOWN: set = {}",
    ],
)
def test_a_word_that_any_value_could_have_is_seen_wherever_it_is_bound(tmp_path: Path, code: str) -> None:
    (tmp_path / "a.py").write_text(code)
    assert len(empty_words(tmp_path / "a.py")) == 1


def test_no_function_for_authors_takes_a_parameter_named_set() -> None:
    found = [
        (source.name, node.name)
        for source in SOURCES
        if source.is_relative_to(PACKAGE)
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.FunctionDef) and "set" in {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
    ]
    assert found == []


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("CommitWitness", True),
        ("still_held_by", True),
        ("keep_stage_branches_for", True),
        ("add-and-widen", True),
        ("_fold", True),
        ("manifold", False),
        ("island", False),
        ("watermark", False),
        ("EventMarks", False),
        ("withheld", False),
        ("refuse_two_lives", True),
        ("SeenEvents", True),
        ("unseen_events", False),
        ("_told_of_file", True),
        ("told_apart", False),
        ("unknown_token", False),
    ],
)
def test_a_word_is_caught_as_a_part_of_a_name_and_not_within_another_word(name: str, caught: bool) -> None:
    assert bool(words_in(name)) == caught
