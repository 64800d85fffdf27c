"""A table format is chosen at one place, by its name, and the seam says nothing of how it reaches its rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.capabilities import FORMATS, FormatCapabilities, Gap, GapKind, Support
from airflow_lake_provider.contracts.capability_names import CAPABILITIES
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec, strategies
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.base import FormatTable, KeyHistory, TableFormat
from airflow_lake_provider.spark_jobs.formats.choose_format import format_named, table_of
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.iceberg_format import IcebergFormatTable
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.tables.base import LoadedTable, WorkerCatalog
from tests.spark.formats.tiny_format import TinyFormat
from tests.table_facts import table_of as facts_of
from tests.tiny_format import TINY

PACKAGE = Path(__file__).parents[2] / "airflow_lake_provider"
DRIVER = PACKAGE / "spark_jobs"
FORMAT_FOLDER = DRIVER / "formats"
SEAM = {"base", "commits", "choose_format"}
OUTSIDE = [path for path in sorted(DRIVER.rglob("*.py")) if not path.is_relative_to(FORMAT_FOLDER)]
ICEBERG = sorted((FORMAT_FOLDER / "iceberg").rglob("*.py"))
NEUTRAL = [*(FORMAT_FOLDER / f"{name}.py" for name in sorted(SEAM)), *sorted((DRIVER / "actions").glob("*.py"))]
# As they stand in a text where blanks, hyphens and underscores are one.
OF_ONE_FORMAT = (
    *("iceberg", "paimon", "strateg", "candidates"),
    *("puffin", "manifest", "deletion vector", "equality", "position delete"),
    *("copy on write", "merge on read", "merge into", "row lineage", "sequence number"),
)
OF_A_COMMIT = {
    *("action", "run_key", "base", "positions", "branch", "properties", "summary", "made_for"),
    *("rows", "keys", "key_ranges", "upserts", "missing_columns", "order_by", "merge_engine", "reads_table", "audits"),
    "located",
}


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(DRIVER)))
def test_no_code_of_a_driver_reaches_past_the_choice_of_a_format(path: Path) -> None:
    _, _, below = f"{PACKAGE.name}.spark_jobs.formats.".partition(".")
    reached = {module.partition(below)[2] for module, _ in imported(path) if below in f"{module}."}
    assert reached <= SEAM


@pytest.mark.parametrize("word", OF_ONE_FORMAT)
@pytest.mark.parametrize("path", NEUTRAL, ids=lambda path: str(path.relative_to(DRIVER)))
def test_the_seam_and_the_actions_name_no_format_and_no_way_to_reach_rows(path: Path, word: str) -> None:
    assert word not in re.sub(r"[\s_-]+", " ", path.read_text().lower())


def test_a_commit_says_which_rows_and_nothing_of_how_they_are_reached() -> None:
    assert {found.name for found in fields(KeyedCommit)} == OF_A_COMMIT
    assert list(signature(FormatTable.create).parameters) == ["self", "columns", "keys", "layout"]


def test_a_table_is_opened_with_the_words_that_only_its_format_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Mapping[str, str]] = []
    monkeypatch.setattr(TinyFormat, "table", lambda *given: opened.append(given[-1]))
    monkeypatch.setitem(FORMATS, TINY.name, TINY)
    spec = UpsertSpec(table="a.b", source=Files("f.parquet"), keys=("id",), strategy="merge", table_format=TINY.name)
    spark: Any = None
    table_of(spark, spec)
    table_of(spark, spec, TableName.parse("a.source"))
    assert opened == [{"strategy": "merge"}, {}]


def test_an_author_names_a_strategy_by_a_text_that_the_format_knows() -> None:
    assert tuple(UpsertStrategy) == strategies()
    spec = UpsertSpec(table="a.b", source=Files("f.parquet"), keys=("id",), strategy=UpsertStrategy.MERGE)
    assert type(spec.strategy) is str
    with pytest.raises(InvalidSpecError) as refused:
        replace(spec, strategy="fast")
    known = "'auto', 'positions', 'copy-on-write', 'merge', 'equality'"
    assert str(refused.value) == f"strategy must be one of {known}, got 'fast'"


def test_the_ranges_of_the_keys_are_asked_for_at_one_place() -> None:
    asking = [
        path.stem
        for path in ICEBERG
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "key_ranges"
    ]
    assert asking == ["key_pruning"]


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_that_is_declared_can_be_chosen(name: str) -> None:
    found = format_named(name)
    assert found.capabilities is FORMATS[name]
    for method in ("open_catalog", "table"):
        assert (
            list(signature(getattr(found, method)).parameters)
            == list(signature(getattr(TableFormat, method)).parameters)[1:]
        )


class Bare(FormatTable):
    """A table that has only what every table has."""

    capabilities = FormatCapabilities(name="bare", title="Bare", driver="", declared={})
    exists = state = applied_state = schema = current_rows = lambda *_: None  # type: ignore[assignment]


ASKED_OF_SOME = sorted(
    name
    for name, method in vars(FormatTable).items()
    if "_lacking" in getattr(getattr(method, "__code__", None), "co_names", ())
)


@pytest.mark.parametrize("name", ASKED_OF_SOME)
def test_a_method_that_a_format_has_not_written_is_refused_by_capability_and_format(name: str) -> None:
    method = getattr(Bare(), name)
    asked = dict.fromkeys(signature(method).parameters)
    with pytest.raises(UnsupportedError, match=r"table format 'bare' lacks .*: Bare has no method") as refused:
        method(**asked)
    assert str(refused.value).split("'")[3] in {key for key, known in CAPABILITIES.items() if known.is_asked}


def test_no_method_of_the_seam_ends_without_the_name_of_what_is_lacking() -> None:
    assert len(ASKED_OF_SOME) == 23
    assert "NotImplementedError" not in (FORMAT_FOLDER / "base.py").read_text()
    with pytest.raises(UnsupportedError, match="'change-events'"):
        KeyHistory().keep_rows(None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_each_part_for_workers_that_is_declared_answers_what_a_catalog_is_asked(name: str) -> None:
    module, _, kind = FORMATS[name].worker.partition(":")
    found = getattr(import_module(module), kind)
    for method, asked in vars(WorkerCatalog).items():
        if not method.startswith("_"):
            assert list(signature(getattr(found, method)).parameters) == list(signature(asked).parameters)


class BareOnWorkers(LoadedTable):
    """A table that has only what every table has on workers."""

    capabilities = FormatCapabilities(
        name="bare",
        title="Bare",
        driver="",
        versions=(1, 2),
        declared={
            "upsert": Support(),
            "tags": Support(since=2, otherwise=Gap(GapKind.NEVER, "version 1 has no tags")),
        },
    )
    state = None  # type: ignore[assignment]

    @property
    def facts(self) -> TableFacts:
        return facts_of(format_version=1)


@pytest.mark.parametrize("name", ["versions_since", "has_file"])
def test_a_method_that_a_format_has_not_written_for_workers_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"table format 'bare' lacks .* on workers: BareOnWorkers has no method"):
        getattr(BareOnWorkers(), name)(None)


def test_health_asks_for_what_a_format_has_not_written_by_its_capability() -> None:
    table = BareOnWorkers()
    asks = (lambda: table.target_bytes, lambda: table.expirable(datetime.now(UTC)), lambda: table.head_files(()))
    for ask in asks:
        with pytest.raises(UnsupportedError, match=r"table format 'bare' lacks 'health' on workers"):
            ask()
    assert table.metadata_bytes is None


def test_a_table_without_rules_of_its_own_says_what_its_format_declares() -> None:
    table = BareOnWorkers()
    why = "version 1 has no tags; the table has version 1, upgrade it to 2"
    assert (table.unfit_for("upsert"), table.unfit_for("tags")) == (None, why)
    found = {each.use: (each.possible, each.reason) for each in table.check(())}
    assert found["tags"] == (False, why)
    assert found["upsert"] == (True, f"to {CAPABILITIES['upsert'].sentence}")
    assert found.keys() == CAPABILITIES.keys()
    # Only Spark can.
    assert table.commit(MetadataChange(table_uuid="x")) is False


NO_SESSION: Any = None


def test_each_step_of_changes_is_refused_by_the_declaration_before_spark_is_asked() -> None:
    with pytest.raises(UnsupportedError, match=r"'iceberg' lacks 'changelog', mode='net' gives the sum .*; it has"):
        read_changes(NO_SESSION, "shop.orders", None, None, mode="changelog", catalog="lake")
    with pytest.raises(InvalidSpecError, match="mode must be one of net, upserts, changelog, got 'steps'"):
        read_changes(NO_SESSION, "shop.orders", None, None, mode="steps", catalog="lake")


@pytest.mark.parametrize("mode", ["net", "upserts", "changelog"])
def test_changes_are_refused_in_each_mode_where_the_format_reads_none(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    steps_alone = replace(TINY, declared={"changelog": Support()})
    monkeypatch.setitem(FORMATS, TINY.name, steps_alone)
    with pytest.raises(UnsupportedError, match="'tiny' lacks 'read-changes'"):
        read_changes(NO_SESSION, "shop.orders", None, None, mode=mode, catalog="lake", table_format=TINY.name)


@pytest.mark.parametrize("given", ["first", "-1", 7])
@pytest.mark.parametrize("role", ["from_snapshot", "to_snapshot"])
def test_a_range_of_changes_is_refused_by_what_can_be_no_id_before_spark_is_asked(role: str, given: Any) -> None:
    asked: dict[str, Any] = {"from_snapshot": None, "to_snapshot": None, role: given}
    with pytest.raises(InvalidSpecError, match=f"{role} must be a snapshot id as text"):
        read_changes(NO_SESSION, "shop.orders", **asked, catalog="lake")


def test_iceberg_answers_all_that_may_be_asked_of_a_table() -> None:
    asked = {name for name in vars(FormatTable) if not name.startswith("_")}
    # A gap that is declared.
    assert asked - vars(IcebergFormatTable).keys() == {"changelog"}
