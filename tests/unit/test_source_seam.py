"""A kind of source is named where it is at home, and nowhere else: a new one is one file and one registration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.spark_jobs.sources.base import BatchSource, open_source

PACKAGE = Path(__file__).parents[2] / "airflow_lake_provider"
DRIVER = PACKAGE / "spark_jobs"
HOMES = (
    PACKAGE / "contracts" / "author" / "sources.py",
    PACKAGE / "contracts" / "author" / "custom_source.py",
    PACKAGE / "contracts" / "author" / "dead_letter.py",
    PACKAGE / "contracts" / "author" / "debezium_topic.py",
    PACKAGE / "contracts" / "author" / "jdbc_table.py",
    PACKAGE / "contracts" / "author" / "kafka_topic.py",
    PACKAGE / "contracts" / "author" / "lake_tables.py",
    PACKAGE / "contracts" / "author" / "pyspark_function.py",
    PACKAGE / "contracts" / "author" / "query.py",
    DRIVER / "sources",
)
KINDS = {found.__name__: found for found in Source.kinds().values() if found.__module__.startswith(PACKAGE.name)}
NEUTRAL = {
    "base",
    "new_input",
    "plain_rows",
    "raw_batch",
    "delete_keys",
    "input_files",
    "batch_columns",
    "unreadable_files",
}
OF_AUTHORS = tuple(
    f"author.{name}"
    for name in (
        *(
            "dead_letter",
            "debezium_topic",
            "jdbc_table",
            "kafka_topic",
            "lake_tables",
            "pyspark_function",
            "query",
            "sources",
        ),
    )
)


def modules(folder: Path) -> list[Path]:
    """Return the modules of a folder that are no home of sources."""
    return [path for path in sorted(folder.rglob("*.py")) if not any(path.is_relative_to(home) for home in HOMES)]


def names_in(node: ast.AST) -> set[str]:
    return {getattr(found, "id", getattr(found, "attr", "")) for found in ast.walk(node)}


def told_apart(tree: ast.AST) -> Iterator[str]:
    """Yield the kinds of source that code tells apart: by isinstance, by its type, or by a pattern."""
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and bool(names_in(node.func) & {"isinstance", "issubclass"})
        is_compared = isinstance(node, ast.Compare) and "type" in names_in(node)
        if is_call or is_compared:
            yield from names_in(node) & KINDS.keys()
        if isinstance(node, ast.MatchClass):
            yield from names_in(node.cls) & KINDS.keys()


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the kinds of source, and the modules of one, that code imports."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.endswith(OF_AUTHORS):
            yield from (alias.name for alias in node.names if alias.name in KINDS)
        _, is_driver, module = node.module.partition(".spark_jobs.sources.")
        if is_driver and module not in NEUTRAL:
            yield module


@pytest.mark.parametrize("module", modules(PACKAGE), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_code_outside_of_their_homes_tells_kinds_of_source_apart(module: Path) -> None:
    assert sorted(told_apart(ast.parse(module.read_text()))) == []


@pytest.mark.parametrize("module", modules(DRIVER), ids=lambda path: str(path.relative_to(DRIVER)))
def test_a_driver_names_no_kind_of_source(module: Path) -> None:
    assert sorted(imported(ast.parse(module.read_text()))) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("isinstance(spec.source, Debezium)", ["Debezium"]),
        ("def late():\n    return isinstance(x, (int, sources.Files))", ["Files"]),
        ("type(source) is LakeTable", ["LakeTable"]),
        ("match source:\n    case Query(sql=text): pass", ["Query"]),
        ("isinstance(spec.source, Source)", []),
    ],
)
def test_each_way_to_tell_kinds_apart_is_seen(code: str, found: list[str]) -> None:
    assert list(told_apart(ast.parse(code))) == found


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_each_kind_names_its_reader_on_the_driver(kind: type[Source]) -> None:
    if not kind.kind:
        return
    module, _, name = kind.reader.partition(":")
    path = PACKAGE.parent / Path(*module.split(".")).with_suffix(".py")
    classes = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}
    assert name in classes


def test_the_seam_is_all_that_a_driver_asks_of_a_source() -> None:
    trees = [ast.parse((DRIVER / "actions" / f"{name}_batch.py").read_text()) for name in ("load", "upsert", "append")]
    asked = {
        (ast.unparse(node.value), node.attr)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] == "source"
    }
    of_author = {name for owner, name in asked if owner == "spec.source"}
    of_reader = {name for owner, name in asked if owner != "spec.source"}
    reading = {"list", "read", "rows", "missing_columns", "warnings_of_reading"}
    assert of_reader == reading | {"after_commit", "location", "other_stream"}
    # The text of a query is refused whatever it reads from.
    assert of_author == {"query"}
    assert not of_reader - vars(BatchSource).keys()
    assert callable(open_source)
