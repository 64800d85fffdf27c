"""Declarations of formats are complete, agree with the rules of tables, and refuse a spec by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy
from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    Deletes,
    FirstRow,
    History,
    PartialUpdate,
)
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import (
    FORMATS,
    ICEBERG,
    FormatCapabilities,
    Gap,
    GapKind,
    Support,
    declared_format,
)
from airflow_lake_provider.contracts.capability_names import CAPABILITIES, Capability
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import (
    CreateTagSpec,
    DropTagSpec,
    PublishBranchSpec,
    RollbackSpec,
    TableUpgradeSpec,
)
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.spec_codec import SPECS
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.table_obstacles import refuses_delete_files, without_row_changes, without_row_lineage
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from scripts.capabilities_page import capabilities_page
from tests.table_facts import table_of
from tests.tiny_format import TINY

NOON = "2026-01-01T12:00:00+00:00"

_GAP_OF_PYICEBERG = "outside of REST catalogs PyIceberg writes metadata of version 2 alone"
UPSERT = UpsertSpec(table="shop.orders", source="a.parquet", keys=("id",), create=None)  # type: ignore[arg-type]  # as an author writes it
KEYS = LakeTable("shop.keys")
NEEDS: dict[str, tuple[JobSpec, set[str]]] = {
    "upsert": (UPSERT, {"upsert", "merge-deduplicate"}),
    "append": (AppendSpec(table="shop.orders", source="a.parquet", create=None), {"append"}),  # type: ignore[arg-type]
    "overwrite": (
        OverwritePartitionsSpec(table="shop.orders", source="a.parquet", create=None, where="id = 1", allow_rows=True),  # type: ignore[arg-type]
        {"overwrite-partitions", "delete-rows"},
    ),
    "creation": (replace(UPSERT, create=True), {"upsert", "merge-deduplicate", "create-table"}),  # type: ignore[arg-type]
    "first row": (replace(UPSERT, merge_engine=FirstRow()), {"upsert", "merge-first-row", "kept-values"}),
    "aggregation": (
        replace(UPSERT, merge_engine=Aggregation({"n": "sum"})),
        {"upsert", "merge-aggregation", "kept-values"},
    ),
    "history": (replace(UPSERT, merge_engine=History(at=NOON)), {"upsert", "merge-history", "kept-values"}),
    "soft": (
        replace(UPSERT, merge_engine=PartialUpdate(deletes=Deletes.SOFT)),
        {"upsert", "merge-partial-update", "soft-deletes", "kept-values"},
    ),
    "audits": (replace(UPSERT, audits=Audits({"a": "SELECT * FROM batch"})), {"upsert", "merge-deduplicate", "audits"}),
    "branch": (replace(UPSERT, branch="load"), {"upsert", "merge-deduplicate", "branches"}),
    "events": (
        replace(UPSERT, source=Debezium("in", table="t", schema="id INT")),
        {"upsert", "merge-deduplicate", "change-events"},
    ),
    "query": (
        replace(UPSERT, source=Query("SELECT * FROM source", over=KEYS)),
        {"upsert", "merge-deduplicate", "lake-table-source"},
    ),
    **{
        strategy.value: (
            replace(UPSERT, strategy=strategy),
            {
                "upsert",
                "merge-deduplicate",
                *([] if strategy is UpsertStrategy.AUTO else [f"strategy-{strategy.value}"]),
            },
        )
        for strategy in UpsertStrategy
    },
    "incremental": (
        IncrementalSpec(table="a.b", source="a.c", consumer="c", keys=("id",), query="SELECT 1"),
        {"upsert", "read-changes", "consumer-tags", "create-table", "merge-deduplicate"},
    ),
    "incremental without a guard": (
        IncrementalSpec(table="a.b", source="a.c", consumer="c", keys=("id",), query="SELECT 1", protect_source=False),
        {"upsert", "read-changes", "create-table", "merge-deduplicate"},
    ),
    "compaction": (CompactionSpec(table="a.b"), {"compaction"}),
    "sort": (
        CompactionSpec(table="a.b", strategy=CompactionStrategy.SORT, sort_by=("id",)),
        {"compaction", "compaction-sort"},
    ),
    "zorder": (
        CompactionSpec(table="a.b", strategy=CompactionStrategy.ZORDER, sort_by=("id",)),
        {"compaction", "compaction-zorder"},
    ),
    "hilbert": (
        CompactionSpec(table="a.b", strategy=CompactionStrategy.HILBERT, sort_by=("id",)),
        {"compaction", "compaction-hilbert"},
    ),
    "row expiry": (RowExpirySpec(table="a.b", column="day", keep=timedelta(days=30)), {"row-expiry"}),
    "statistics": (StatisticsSpec(table="a.b"), {"statistics"}),
    "manifests": (RewriteManifestsSpec(table="a.b"), {"file-lists"}),
    "expiry": (SnapshotExpirySpec(table="a.b", older_than=timedelta(days=5)), {"snapshot-expiry"}),
    "orphan files": (OrphanFilesSpec(table="a.b"), {"remove-orphans"}),
    "deletion": (DeleteRowsSpec(table="a.b", where="id = 1"), {"delete-rows", "erasure-proof"}),
    "deletion of keys": (
        DeleteRowsSpec(table="a.b", keys_from=KEYS, keys=("id",), proof=False),
        {"delete-rows", "lake-table-source"},
    ),
    "update": (UpdateRowsSpec(table="a.b", where="id = 1", assignments={"n": "2"}), {"update-rows"}),
    "rollback": (RollbackSpec(table="a.b", tag="x"), {"metadata-changes", "rollback"}),
    "publication": (PublishBranchSpec(table="a.b", branch="x"), {"metadata-changes", "branches"}),
    "tag": (CreateTagSpec(table="a.b", tag="x"), {"metadata-changes", "tags"}),
    "no tag": (DropTagSpec(table="a.b", tag="x"), {"metadata-changes", "tags"}),
    "upgrade": (TableUpgradeSpec(table="a.b"), {"metadata-changes", "format-upgrade"}),
}


@pytest.mark.parametrize(("spec", "expected"), NEEDS.values(), ids=NEEDS.keys())
def test_a_spec_says_what_it_needs(spec: JobSpec, expected: set[str]) -> None:
    assert set(spec.needs) == expected
    assert expected <= CAPABILITIES.keys()
    ICEBERG.refuse_lacking(spec.table, spec.needs)


# By fit_target, which knows the columns of a batch, and by read_changes, which has no spec.
ASKED_BY_THE_DRIVER = {"schema-evolution", "changelog"}
# By table_health, which looks at the tables of a catalog and has no spec.
ASKED_ON_WORKERS = {"health"}
TABLES_OF_VALUES_KEPT_BY_EQUALITY: list[dict[str, Any]] = [
    {"schema_contract": SchemaContract(missing_columns=MissingColumns.KEEP)},
    {"merge_engine": Deduplicate(deletes=Deletes.SOFT)},
    {"merge_engine": Deduplicate(ignore_stale=True), "order_by": ("at",)},
    {"merge_engine": FirstRow()},
    {"merge_engine": PartialUpdate()},
    {"merge_engine": Aggregation({"n": "sum"})},
    {"merge_engine": History(at=NOON)},
    {"source": Debezium("in", table="t", schema="id INT", ordering="key")},
]


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> FormatCapabilities:
    """A format beside Iceberg whose upserts by equality deletes keep values, and that has names of its own."""
    found = FormatCapabilities(
        name="keeping",
        title="Keeping",
        driver="",
        declared={name: Support() for name in CAPABILITIES},
        transforms=ICEBERG.transforms | {"weeks"},
    )
    monkeypatch.setitem(FORMATS, found.name, found)
    return found


def test_each_capability_is_asked_for_by_a_spec_or_a_driver_or_is_said_to_describe_tables() -> None:
    asked = {name for spec, _ in NEEDS.values() for name in spec.needs}
    asked |= ASKED_BY_THE_DRIVER | ASKED_ON_WORKERS
    assert asked == {name for name, each in CAPABILITIES.items() if each.is_asked}
    described = capabilities_page().partition("No task asks for\n")[2].partition(".")[0]
    assert set(re.findall("`(.*?)`", described)) == CAPABILITIES.keys() - asked


@pytest.mark.parametrize("changes", TABLES_OF_VALUES_KEPT_BY_EQUALITY)
def test_values_that_equality_keeps_are_refused_by_the_format_and_not_by_the_spec(
    keeping: FormatCapabilities, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    spec = replace(UPSERT, strategy=UpsertStrategy.EQUALITY, **changes)
    assert spec.checked_for(keeping.name).needs == spec.needs
    with pytest.raises(UnsupportedError, match=r"'iceberg' lacks 'equality-with-kept-values', .*leave strategy at"):
        spec.checked_for(ICEBERG.name)
    # Where no format can do it, whoever writes the DAG hears of it.
    monkeypatch.delitem(FORMATS, keeping.name)
    with pytest.raises(InvalidSpecError, match="'iceberg' lacks 'equality-with-kept-values'"):
        replace(UPSERT, strategy=UpsertStrategy.EQUALITY, **changes)


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> FormatCapabilities:
    """A format with a strategy of its own, which goes with no branch."""
    apart = Gap(GapKind.OURS, "a log is kept for main alone; leave out branch")
    declared = {name: Support() for name in (*CAPABILITIES, "strategy-log")}
    second = FormatCapabilities(
        name="second",
        title="Second",
        driver="",
        declared={**declared, "log-of-a-branch": apart},
        own={
            "strategy-log": Capability("strategies", "add the rows to a log"),
            "log-of-a-branch": Capability(
                "strategies", "add rows to the log of a branch", asked_with=frozenset({"strategy-log", "branches"})
            ),
        },
    )
    monkeypatch.setitem(FORMATS, second.name, second)
    return second


def test_a_strategy_that_a_format_declares_as_its_own_is_a_value_that_others_refuse(
    second: FormatCapabilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(UPSERT, strategy="log")
    assert spec.checked_for("second").needs == ("upsert", "merge-deduplicate", "strategy-log")
    with pytest.raises(UnsupportedError, match="'iceberg' lacks 'strategy-log', nobody has written it: add the rows"):
        spec.checked_for("iceberg")
    assert "log-of-a-branch" not in {each.use for each in ICEBERG.verdicts(3)}
    assert {each.use for each in second.verdicts(1)} == second.declared.keys()
    monkeypatch.delitem(FORMATS, second.name)
    with pytest.raises(InvalidSpecError, match=r"strategy must be one of .*'equality', got 'log'"):
        replace(UPSERT, strategy="log")


@pytest.mark.usefixtures("second")
def test_a_rule_of_one_format_refuses_what_does_not_go_together_in_that_one_alone() -> None:
    replace(UPSERT, strategy="positions", branch="b").checked_for("second")
    why = "'second' lacks 'log-of-a-branch', a log is kept for main alone; leave out branch; it has strategy-"
    # Iceberg lacks the strategy, so no format is left, and both say why.
    with pytest.raises(InvalidSpecError, match=f"'iceberg' lacks 'strategy-log'.*{why}"):
        replace(UPSERT, strategy="log", branch="b")
    assert ICEBERG.asked_by(("strategy-equality", "kept-values")) == (
        *("strategy-equality", "kept-values", "equality-with-kept-values"),
    )
    assert ICEBERG.asked_by(("strategy-log", "branches")) == ("strategy-log", "branches")


def test_a_name_that_a_format_calls_its_own_is_no_shared_one_and_is_asked_with_names_that_there_are() -> None:
    given: dict[str, Any] = {"name": "x", "title": "X", "driver": "", "declared": {}}
    own = Capability("strategies", "do it")
    with pytest.raises(ValueError, match=r"x calls \['upsert'\] its own, which all formats have by that name"):
        FormatCapabilities(**given, own={"upsert": own})
    with pytest.raises(ValueError, match=r"x asks for 'it' with \['uspert'\], which are no capabilities"):
        FormatCapabilities(**given, own={"it": replace(own, asked_with=frozenset({"uspert", "upsert"}))})


NAMES_OF_ICEBERGS_OWN: dict[str, Callable[[], JobSpec]] = {
    "keys": lambda: replace(UPSERT, keys=("id", "_File")),
    "deleted_column": lambda: replace(UPSERT, merge_engine=Deduplicate(deleted_column="_deleted")),
    "assignments": lambda: UpdateRowsSpec(table="a.b", assignments={"_ROW_ID": "1"}, where="id = 1"),
    "keys of an increment": lambda: replace(NEEDS["incremental"][0], keys=("_change_type",)),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("make", NAMES_OF_ICEBERGS_OWN.values(), ids=NAMES_OF_ICEBERGS_OWN.keys())
def test_a_name_that_one_of_two_formats_reserves_is_refused_for_that_one_before_spark(
    keeping: FormatCapabilities, make: Callable[[], JobSpec]
) -> None:
    spec = make()
    assert spec.checked_for(keeping.name).table == spec.table
    with pytest.raises(InvalidSpecError, match="which Iceberg reserves for columns of its own"):
        spec.checked_for(ICEBERG.name)


@pytest.mark.parametrize("terms", [{"partition_by": ["weeks(at)"]}, {"sort_by": ["id", "weeks(at) DESC"]}])
@pytest.mark.parametrize("spec", [NEEDS["creation"][0], NEEDS["incremental"][0]], ids=["upsert", "increment"])
def test_a_transform_that_one_of_two_formats_lacks_is_refused_for_that_one_before_spark(
    keeping: FormatCapabilities, spec: JobSpec, terms: dict[str, Any]
) -> None:
    asked: JobSpec = replace(spec, create=TableLayout(**terms))  # type: ignore[call-arg]
    assert asked.checked_for(keeping.name).transforms >= {"weeks"}
    with pytest.raises(UnsupportedError, match="'iceberg' partitions and sorts by no weeks; it takes bucket, date,"):
        asked.checked_for(ICEBERG.name)


IDS_OF_SNAPSHOTS: dict[str, Callable[[str], JobSpec]] = {
    "snapshot_id of a rollback": lambda given: RollbackSpec(table="a.b", snapshot_id=given),
    "expected_snapshot_id": lambda given: RollbackSpec(table="a.b", tag="x", expected_snapshot_id=given),
    "snapshot_id of a tag": lambda given: CreateTagSpec(table="a.b", tag="x", snapshot_id=given),
    "from_snapshot": lambda given: replace(NEEDS["incremental"][0], from_snapshot=given),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("make", IDS_OF_SNAPSHOTS.values(), ids=IDS_OF_SNAPSHOTS.keys())
def test_an_id_of_a_snapshot_is_what_the_format_says_it_is(
    keeping: FormatCapabilities, monkeypatch: pytest.MonkeyPatch, make: Callable[[str], JobSpec]
) -> None:
    assert "4611686018427387905" in make("4611686018427387905").checked_for(ICEBERG.name).snapshots.values()
    # As a native template renders digits.
    number: Any = 4611686018427387905
    assert "4611686018427387905" in make(number).checked_for(ICEBERG.name).snapshots.values()
    for given in ("v 1@é", "007x", str(2**63)):
        spec = make(given)
        assert given in spec.checked_for(keeping.name).snapshots.values()
        with pytest.raises(InvalidSpecError, match="must be a snapshot id of Iceberg, digits as text or a whole num"):
            spec.checked_for(ICEBERG.name)
    # While a DAG is parsed, where no format has such ids.
    monkeypatch.delitem(FORMATS, keeping.name)
    with pytest.raises(InvalidSpecError, match="must be a snapshot id"):
        make("first")


def test_the_page_says_which_capabilities_of_a_version_no_behaviour_test_has_tried() -> None:
    rows = [line.split(" | ") for line in capabilities_page().splitlines() if line.startswith("| `")]
    cells = {row[0].strip("| `"): [cell.strip(" |") for cell in row[2:]] for row in rows if len(row) == 5}
    assert cells.keys() == CAPABILITIES.keys() | ICEBERG.own.keys()
    untried = {
        (name, version) for name, row in cells.items() for version, cell in enumerate(row, 1) if cell == "untried"
    }
    assert {name for name, _ in untried} >= {"compaction", "snapshot-expiry", "tags", "rollback"}
    assert {version for _, version in untried} == {1}
    assert "all of them for versions 2 and 3, for version 1 in part" in " ".join(capabilities_page().split())


def test_each_spec_of_a_driver_needs_something() -> None:
    assert {action for action, spec in SPECS.items() if spec.needs is JobSpec.needs and not spec.capabilities} == set()


def test_iceberg_says_of_each_capability_whether_it_has_it_and_of_each_gap_why_not() -> None:
    assert ICEBERG.declared.keys() == CAPABILITIES.keys() | ICEBERG.own.keys()
    for found in ICEBERG.declared.values():
        gap = found if isinstance(found, Gap) else found.otherwise
        holds_always = isinstance(found, Support) and all(map(found.holds, ICEBERG.versions))
        assert (gap is None) is holds_always
        assert gap is None or gap.reason


@pytest.mark.parametrize("version", ICEBERG.versions)
def test_rules_of_tables_take_their_reasons_from_the_declarations(version: int) -> None:
    rules = {
        "delete-rows": without_row_changes(table_of(format_version=version).shape),
        "update-rows": without_row_changes(table_of(format_version=version).shape),
        "read-changes": without_row_lineage(version),
        "strategy-positions": refuses_delete_files(version, {}),
        "strategy-equality": refuses_delete_files(version, {}),
    }
    gaps = {name: gap.reason for name in rules if (gap := ICEBERG.gap(name, version)) is not None}
    assert {name: why.partition(";")[0] for name, why in rules.items() if why} == gaps


def test_a_version_that_lacks_a_capability_says_which_version_has_it() -> None:
    assert ICEBERG.lacks("delete-rows", 1) == (
        "format version 1 has no deletes; the table has version 1, upgrade it to 2 with LakeTableUpgradeOperator"
    )
    assert ICEBERG.lacks("delete-rows", 2) is None
    assert ICEBERG.lacks("metadata-changes-on-worker", 3) == _GAP_OF_PYICEBERG
    assert ICEBERG.lacks("changelog", 3) == "mode='net' gives the sum of all steps"


def test_a_lacking_capability_is_named_with_its_reason_and_the_nearest() -> None:
    with pytest.raises(UnsupportedError) as refused:
        TINY.refuse_lacking("shop.orders", ("upsert", "merge-first-row"))
    assert str(refused.value) == (
        "shop.orders: table format 'tiny' lacks 'merge-first-row', nobody has written it: keep the first row of a key; "
        "it has merge-deduplicate"
    )
    with pytest.raises(UnsupportedError, match="lacks 'strategy-merge', it has no statements; it has upsert, merge"):
        TINY.refuse_lacking("shop.orders", ("strategy-merge",))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="'iceburg' is not known; this version knows iceberg; did you mean"):
        declared_format("iceburg")
    with pytest.raises(ValueError, match=r"declares \['uspert'\], which are no capabilities"):
        FormatCapabilities(name="x", title="X", driver="", declared={"uspert": Support()})
    with pytest.raises(UnsupportedError, match="'uspert' is asked of its format and is no capability; did you mean"):
        ICEBERG.refuse_lacking("a.b", ("uspert",))
    with pytest.raises(KeyError):
        ICEBERG.gap("uspert")


def test_a_support_of_some_versions_says_why_others_lack_it() -> None:
    with pytest.raises(ValueError, match="say why in otherwise"):
        Support(since=2)
    with pytest.raises(ValueError, match="say why in otherwise"):
        Support(until=2)
