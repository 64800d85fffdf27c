"""Specs: the same after the border, refused in words before it, and digested by what is applied."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import Changes
from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionRunner,
    CompactionStrategy,
    Verification,
)
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes, FirstRow
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import Evolution, MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.row_age import Clock
from airflow_lake_provider.contracts.specs.append import AppendSpec, OnChangedInput
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    ForeignFiles,
    OrphanFilesSpec,
    PrefixMismatchMode,
    RemovalMode,
    SnapshotExpirySpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChangeSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OnEmptyBatch, OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.specs.spec_codec import SPECS, spec_from_plain, spec_to_plain
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.unit.contracts.specs.specimens import AUDITS, BASE, EVENTS, FILES, MAXIMAL, NOW


def test_there_is_a_specimen_of_every_spec() -> None:
    assert MAXIMAL.keys() == SPECS.keys()


@pytest.mark.parametrize("spec", MAXIMAL.values(), ids=list(MAXIMAL))
def test_a_spec_is_the_same_after_the_border(spec: JobSpec) -> None:
    assert spec_from_plain(json.loads(to_json(spec_to_plain(spec)))) == spec


TEXT = st.text(min_size=1)


@settings(deadline=None)
@given(
    st.lists(TEXT, min_size=1, max_size=4, unique=True),
    st.none() | TEXT.filter(lambda text: "\0" not in text and "$" not in text),
    st.dictionaries(st.sampled_from(("emptyValue", "nanValue", "NULLVALUE", "fs.s3a.endpoint")), st.text()),
    st.none() | st.just(TableLayout()),
    st.sampled_from(OnRepeat),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_any_upsert_is_the_same_after_the_border(
    keys: list[str],
    delete_when: str | None,
    options: dict[str, str],
    create: TableLayout | None,
    on_repeat: OnRepeat,
    run_after: datetime | None,
) -> None:
    spec = UpsertSpec(
        catalog="lake",
        table="shop.orders",
        run=RunIdentity.of("batch", *keys, run_after=run_after),
        source=Files(path="in/*.csv", format="csv", options=options, name="s"),
        keys=tuple(keys),
        delete_when=delete_when,
        create=create,
        on_repeat=on_repeat,
    )
    assert spec_from_plain(json.loads(to_json(spec_to_plain(spec)))) == spec


ASIDE: dict[str, Any] = {
    "allow_sql": True,
    "run": RunIdentity.of("other"),
    "task_name": "other",
    "on_repeat": OnRepeat.APPLY,
    "max_attempts": 99,
    "batch_id": "another",
    "verify": Verification.ROWS,
    "runner": CompactionRunner.ARROW,
}
# Of one action alone.
ASIDE_OF: dict[str, dict[str, Any]] = {
    "expire-rows": {"asked_at": datetime(2025, 1, 1, tzinfo=UTC), "max_share": 0.25},
    "upsert": {"max_deleted_share": 0.5},
}
OTHER: dict[type, Any] = {bool: None, int: 77, float: 0.25, str: "other"}


def changed(spec: JobSpec, name: str, value: Any) -> JobSpec:
    return replace(spec, **{name: value})


# A deletion leaves out which rows as well; test_row_change_specs.py has it. A change of metadata has no run key: its
# worker digests what was asked for.
DIGESTED = {name: spec for name, spec in MAXIMAL.items() if not isinstance(spec, (DeleteRowsSpec, MetadataChangeSpec))}


@pytest.mark.parametrize("spec", DIGESTED.values(), ids=list(DIGESTED))
def test_the_digest_leaves_out_who_asks_and_how_often_and_nothing_else(spec: JobSpec) -> None:
    special: dict[str, Any] = {
        "from_snapshot": "2",
        "table": "shop.other",
        "source": replace(FILES, path="other.orc") if isinstance(spec, LoadSpec) else "shop.others",
        "create": TableLayout(file_format="orc"),
        "deduplicate_against": "PT9H",
        "on_changed_input": OnChangedInput.APPEND,
        "empty": OnEmptyBatch.KEEP,
        "merge_engine": FirstRow(),
        "level": CompactionLevel.FULL,
        "strategy": UpsertStrategy.MERGE if isinstance(spec, UpsertSpec) else CompactionStrategy.SORT,
        "schema_contract": SchemaContract(wider_types=Evolution.FREEZE),
        "on_gap": "full",
        "assignments": {"n": "n + 2"},
        "on_transform_change": "full",
        "transform": "marts.other:rows",
        "expire_before": datetime(2025, 1, 1, tzinfo=UTC),
        "expire_stage_branches_before": datetime(2025, 1, 1, tzinfo=UTC),
        "expire_flink_jobs_before": datetime(2025, 1, 1, tzinfo=UTC),
        "asked_at": datetime(2025, 1, 1, tzinfo=UTC),
        "minimum_age": timedelta(hours=2),
        "older_than": timedelta(days=3),
        "stage_branches_older_than": timedelta(days=3),
        "flink_jobs_older_than": timedelta(days=3),
        "foreign_files": ForeignFiles.KEEP,
        "keep": timedelta(days=31),
        "clock": Clock.NOW,
        "before": datetime(2025, 1, 1, tzinfo=UTC),
        "prefix_mismatch_mode": PrefixMismatchMode.ERROR,
        "quarantine_for": timedelta(days=3),
        **({"mode": RemovalMode.DRY_RUN, "older_than": timedelta(days=4)} if isinstance(spec, OrphanFilesSpec) else {}),
    }
    for field in fields(spec):
        old = getattr(spec, field.name)
        if field.name in ("query", "audits", "is_complete", "dead_letter", "is_dry_run"):
            continue  # contradicts the specimen's transform, branch or delete_when; its own test is below
        aside = {**ASIDE, **ASIDE_OF.get(spec.action, {})}
        if field.name == "task_name" and spec.action == "update-rows":
            continue  # it is all that is applied; test_task_names.py has it
        if field.name in aside:
            assert changed(spec, field.name, aside[field.name]).digest_text() == spec.digest_text(), field.name
            continue
        new = special.get(field.name)
        if new is None:
            new = not old if isinstance(old, bool) else ("other",) if isinstance(old, tuple) else OTHER[type(old)]
        assert changed(spec, field.name, new).digest_text() != spec.digest_text(), field.name


def test_the_digest_tells_queries_and_actions_apart() -> None:
    def incremental(query: str) -> str:
        return replace(MAXIMAL["incremental"], transform=None, transform_code=None, query=query).digest_text()  # type: ignore[call-arg]  # a field of the subclass

    assert incremental("SELECT 1") != incremental("SELECT 2")
    assert len({spec.digest_text() for spec in MAXIMAL.values()}) == len(MAXIMAL)


def test_audits_cross_the_border_and_are_no_part_of_what_is_applied() -> None:
    audited = upsert(audits=Audits(queries={"a": "SELECT * FROM batch"}, local=True))
    assert spec_from_plain(json.loads(to_json(spec_to_plain(audited)))) == audited
    assert audited.digest_text() == upsert().digest_text()


def test_a_whole_source_is_another_digest_and_a_spec_without_one_is_as_it_was() -> None:
    whole = upsert(is_complete=True, max_deleted_share=0.5)
    assert spec_from_plain(json.loads(to_json(spec_to_plain(whole)))) == whole
    assert whole.digest_text() != upsert().digest_text()
    assert upsert(is_complete="false", max_deleted_share=0.2) == upsert()
    # Tables know runs by it, and drivers of before read it.
    for text in (upsert().digest_text(), to_json(spec_to_plain(upsert()))):
        assert not {"is_complete", "max_deleted_share"} & set(text.split('"'))


@pytest.mark.parametrize("spec", MAXIMAL.values(), ids=MAXIMAL)
def test_a_name_of_a_task_crosses_the_border_and_a_spec_without_one_is_as_it_was(spec: JobSpec) -> None:
    named = replace(spec, task_name="carts")
    assert spec_from_plain(json.loads(to_json(spec_to_plain(named)))) == named
    for text in (spec.digest_text(), to_json(spec_to_plain(spec))):
        assert "task_name" not in text


def append(**changed: Any) -> AppendSpec:
    return AppendSpec(**{**BASE, "source": FILES, **changed})


def test_a_dry_run_crosses_the_border_and_a_spec_without_one_is_as_it_was() -> None:
    planned = upsert(is_dry_run=True)
    assert spec_from_plain(json.loads(to_json(spec_to_plain(planned)))) == planned
    for text in (upsert().digest_text(), to_json(spec_to_plain(upsert()))):
        assert "is_dry_run" not in text


@pytest.mark.parametrize(
    ("given", "files", "time"),
    [
        (None, 0, None),
        (20, 20, None),
        ("20", 20, None),
        (timedelta(days=3), 0, timedelta(days=3)),
        ("PT90M", 0, timedelta(minutes=90)),
    ],
)
def test_recent_rows_of_a_table_are_a_number_of_files_or_a_time(given: Any, files: int, time: timedelta | None) -> None:
    spec = append(deduplicate_by=("id",), deduplicate_against=given)
    assert spec.recent == (files, time)


def overwrite(**changed: Any) -> OverwritePartitionsSpec:
    return OverwritePartitionsSpec(**{**BASE, "source": FILES, **changed})


def upsert(**changed: Any) -> UpsertSpec:
    return UpsertSpec(**{**BASE, "source": FILES, "keys": ("id",), **changed})


KEEPING = SchemaContract(missing_columns=MissingColumns.KEEP)
WHOLE: dict[str, Any] = {"is_complete": True}
EQUALITY: dict[str, Any] = {"strategy": UpsertStrategy.EQUALITY}


def incremental(**changed: Any) -> IncrementalSpec:
    given = {"source": "shop.lines", "consumer": "c", "keys": ("id",), "to_snapshot": "1", "query": "SELECT 1"}
    return IncrementalSpec(**{**BASE, **given, **changed})


def expiry(**changed: Any) -> SnapshotExpirySpec:
    return SnapshotExpirySpec(**{**BASE, "expire_before": NOW, "expire_stage_branches_before": NOW, **changed})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TableLayout(file_format="csv"), ["'csv'", "parquet, orc, avro"]),
        (lambda: TableLayout(file_format="orc", bloom_filter_columns=("id",)), ["orc"]),
        (lambda: TableLayout(properties={"lake.position.x": "1"}), ["lake.position.x"]),
        (lambda: upsert(table="orders"), ["'orders'"]),
        (lambda: upsert(keys=()), ["shop.orders", "[]"]),
        (lambda: upsert(keys=("id", "id")), ["['id', 'id']"]),
        (lambda: upsert(schema_contract=SchemaContract(exclude_columns=("id", "op"))), ["['id']"]),
        (lambda: upsert(schema_contract={"by_column": {"a.B": "freeze", "A.b": "evolve"}}), ["['A.b', 'a.B']"]),
        (lambda: overwrite(schema_contract="quarantine"), ["takes no dead_letter; say 'freeze'"]),
        (lambda: upsert(source=EVENTS, order_by=("at",)), ["order_by"]),
        (lambda: upsert(source=EVENTS, delete_when="true"), ["delete_when"]),
        (lambda: append(source=EVENTS), ["Debezium has change events", "LakeUpsertOperator", "raw events"]),
        (lambda: append(source=replace(FILES, on_source_change="replay")), ["'replay' would add", "'continue'"]),
        (lambda: overwrite(source=replace(FILES, on_source_change="fail")), ["no meaning", "takes 'continue'"]),
        (lambda: append(deduplicate_by=("id", "ID")), ["deduplicate_by names a column twice"]),
        (lambda: append(deduplicate_against="P1D"), ["deduplicate_against", "give these, too"]),
        (lambda: append(deduplicate_by=("id",), deduplicate_against=0), ["one or more data files", "'P3D'"]),
        (lambda: append(deduplicate_by=("id",), deduplicate_against="soon"), ["deduplicate_against", "'soon'"]),
        (lambda: append(deduplicate_by=("OP",), schema_contract=SchemaContract(exclude_columns=("op",))), ["['op']"]),
        (lambda: append(max_attempts=0), ["max_attempts", "0"]),
        (lambda: overwrite(source=EVENTS), ["an overwrite of partitions takes rows", "Debezium has change events"]),
        (lambda: overwrite(empty="delete", allow_rows=True), ["allow_rows and empty need where"]),
        (lambda: overwrite(keys=("id",)), ["keys need where"]),
        (lambda: overwrite(where=" "), ["where is empty", "say 'true'"]),
        (lambda: overwrite(where="day = '${DAY}'"), ["where was refused for '${'"]),
        (lambda: overwrite(empty="drop"), ["'drop'", "empty"]),
        (lambda: append(branch="b", audits=AUDITS), ["shop.orders", "main", "branch='b'"]),
        (lambda: upsert(branch="main"), ["'main'"]),
        (lambda: upsert(branch="lake_stage_1"), ["'lake_stage_1'"]),
        (lambda: upsert(max_attempts=0), ["max_attempts", "0"]),
        (lambda: upsert(branch="b", audits=AUDITS), ["shop.orders", "main", "branch='b'"]),
        (
            lambda: upsert(**EQUALITY, schema_contract=KEEPING),
            ["'equality'", "missing_columns='keep'"],
        ),
        (lambda: upsert(**EQUALITY, merge_engine=Deduplicate(deletes=Deletes.SOFT)), ["'equality'", "deletes='soft'"]),
        (lambda: upsert(**EQUALITY, merge_engine=FirstRow()), ["'equality'", "'deduplicate'"]),
        (
            lambda: upsert(**EQUALITY, order_by=("at",), merge_engine=Deduplicate(ignore_stale=True)),
            ["'equality'", "without ignore_stale", "'auto'"],
        ),
        (lambda: upsert(**WHOLE, source=EVENTS), ["Debezium's events are a part of the rows", "complete=True"]),
        (lambda: upsert(**WHOLE, source=Changes("a.b", name="c")), ["Changes are a part", "a.b", "by LakeTable"]),
        (
            lambda: upsert(**WHOLE, source=Query("SELECT 1", over={"c": Changes("a.b")}, name="q")),
            ["Changes are a part", "complete=True"],
        ),
        (lambda: upsert(**WHOLE, delete_when="a"), ["complete=True", "delete_when", "by a Query"]),
        (lambda: upsert(**WHOLE, merge_engine=FirstRow()), ["complete=True", "a Deduplicate", "FirstRow"]),
        (lambda: upsert(**WHOLE, merge_engine=Deduplicate(deletes="ignore")), ["complete=True", "deletes='ignore'"]),
        (
            lambda: upsert(**WHOLE, order_by=("at",), merge_engine=Deduplicate(ignore_stale=True)),
            ["complete=True", "without ignore_stale"],
        ),
        (lambda: upsert(**WHOLE, **EQUALITY), ["'equality'", "looks at no row"]),
        (lambda: upsert(**WHOLE, max_deleted_share=1.1), ["max_deleted_share", "from 0 to 1", "1.1"]),
        (lambda: CompactionSpec(**BASE, strategy=CompactionStrategy.ZORDER), ["zorder", "sort_by"]),
        (lambda: CompactionSpec(**BASE, strategy=CompactionStrategy.HILBERT), ["hilbert", "sort_by"]),
        (lambda: CompactionSpec(**BASE, sort_by=("a",)), ["sort_by", "binpack"]),
        (lambda: CompactionSpec(**BASE, delete_ratio_threshold=1.5), ["1.5"]),
        (lambda: CompactionSpec(**BASE, delete_ratio_threshold=0), ["(0, 1]"]),
        (lambda: CompactionSpec(**BASE, min_input_files=0), ["min_input_files", "at least 1", "got 0"]),
        (lambda: CompactionSpec(**BASE, delete_file_threshold=-1), ["delete_file_threshold", "got -1"]),
        (lambda: expiry(retain_last=0), ["retain_last", "got 0"]),
        (lambda: expiry(expire_before=datetime(2026, 1, 1)), ["time zone"]),  # noqa: DTZ001  # what is refused
        (lambda: incremental(source="shop.orders"), ["shop.orders", "same table"]),
        (lambda: incremental(source="lines"), ["'lines'"]),
        (lambda: incremental(consumer="a.b"), ["'a.b'"]),
        (lambda: incremental(consumer="c" * 28), ["1 to 27"]),
        (lambda: incremental(keys=()), ["keys"]),
        (lambda: incremental(query=None), ["module:function", "query"]),
        (lambda: incremental(transform="m:f"), ["not both"]),
        (lambda: incremental(query=None, transform="m.f"), ["'m.f'"]),
        (lambda: incremental(on_gap="skip"), ["on_gap", "'skip'"]),
        (lambda: incremental(on_transform_change="skip"), ["on_transform_change", "'skip'"]),
    ],
)
def test_a_refusal_names_what_was_given(make: Any, said: list[str]) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        make()
    assert all(words in str(refused.value) for words in said), str(refused.value)


def plain() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(spec_to_plain(MAXIMAL["upsert"])))
    return found


@pytest.mark.parametrize("spec", MAXIMAL.values(), ids=list(MAXIMAL))
def test_a_text_that_no_file_can_hold_is_refused_before_the_border(spec: JobSpec) -> None:
    with pytest.raises(InvalidSpecError, match="surrogates"):
        spec_to_plain(replace(spec, catalog="lake\ud800"))


def test_an_unknown_action_is_refused_with_the_known_ones() -> None:
    for action in ("vacuum", None):
        with pytest.raises(InvalidSpecError, match="upsert, append, overwrite-partitions"):
            spec_from_plain({**plain(), "action": action})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.update(colour="red"), "UpsertSpec has no field ['colour']"),
        (lambda spec: spec["source"].update(colour="red"), "Query has no field ['colour']"),
        (lambda spec: spec.pop("keys"), "UpsertSpec needs ['keys']"),
        (lambda spec: spec.update(on_repeat="maybe"), "'maybe' is not a valid OnRepeat"),
    ],
)
def test_a_spec_of_another_version_is_refused_in_words(change: Any, said: str) -> None:
    given = plain()
    change(given["spec"])
    with pytest.raises(InvalidSpecError) as refused:
        spec_from_plain(given)
    assert said in str(refused.value)
    assert "version" in str(refused.value)
