"""Keys and predicates under settings of the session that change what SQL means."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.spark_jobs.session.open_session import open_session
from airflow_lake_provider.spark_jobs.session.pinned_settings import PINNED, PinnedSetting, pin_settings
from tests.spark.said_settings import said, settings_of
from tests.spark.upsert_flow import Flow

SCHEMA = (
    "t STRING, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, d DECIMAL(12,2), raw BINARY, f BOOLEAN, n BIGINT, "
    "`v v` INT, s STRUCT<`order`: INT, m: MAP<STRING, INT>>"
)
KEYS = ("t", "day", "at", "local", "d", "raw", "f", "n")
TEXTS = ("it's", "a\\b", "${env:HOME}", '"x"', "\\u0041", "A", "a", "I")
# In CI one by one: those that wrote wrong rows, or read others; the rest singly with LAKE_EXAMPLES.
WORST = {
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.timeTravelVersionKey",
    "spark.sql.caseSensitive",
    "spark.wap.branch",
}
SINGLY = [pinned for pinned in PINNED if pinned.name in WORST or "LAKE_EXAMPLES" in os.environ]
LEGACY = {"spark.sql.legacy.timeParserPolicy": "LEGACY", "spark.sql.legacy.charVarcharAsString": "true"}


def row(number: int, value: int) -> dict[str, Any]:
    return {
        "t": TEXTS[number],
        "day": f"2024-02-{10 + number}",
        "at": f"2024-02-{10 + number}T03:04:05.678901Z",
        "local": f"2024-02-{10 + number}T23:04:05.678901",
        "d": f"-{number}.50",
        "raw": "aXQncw==",
        "f": number % 2 == 0,
        "n": 2**40 + number,
        "v v": value,
        "s": {"order": number, "m": {"k": value}},
    }


def exercise(spark: SparkSession, folder: Path, table: str) -> None:
    """Upsert keys of all types twice, update some and delete one, and compare with PyIceberg's reading."""
    source = Files(path=f"{folder}/*.jsonl", format="json", schema=SCHEMA)
    flow = Flow(spark, table, folder, {"source": source, "keys": KEYS, "delete_when": None, "exclude_columns": ()})
    job: dict[str, Any] = {"catalog": "lake_default", "table": table}
    folder.mkdir(parents=True)
    for batch in (1, 2):
        rows = "".join(json.dumps(row(number, batch)) + "\n" for number in range(len(TEXTS)))
        (folder / f"{batch}.jsonl").write_text(rows)
        report = flow.apply(f"run {batch}")
        assert report.outcome is Outcome.APPLIED
        assert (report.rows_inserted, report.rows_updated) == ((8, 0) if batch == 1 else (0, 8))
    update = UpdateRowsSpec(
        **job,
        run=RunIdentity.of("dag", "u", "task", "-1"),
        assignments={"V V": "`v v` + 40"},
        where="T IN ('it\\'s', 'a\\\\b') AND at < TIMESTAMP '2024-02-12 00:00:00' AND d <= -0.5",
    )
    assert update_rows(spark, update, Progress()).rows_updated == 2
    where = "n = 1099511627779 AND day = DATE '2024-02-13' AND t = '\"x\"' AND f = false AND raw = X'69742773'"
    delete = DeleteRowsSpec(**job, run=RunIdentity.of("dag", "d", "task", "-1"), where=where, proof=False)
    assert delete_rows(spark, delete, Progress()).rows_deleted == 1
    found = flow.loaded().scan().to_arrow().to_pylist()
    held = {line["t"]: (line["v v"], line["at"].isoformat(), dict(line["s"]["m"])) for line in found}
    at = "2024-02-{}T03:04:05.678901+00:00"
    values = {text: (42 if number < 2 else 2, at.format(10 + number), {"k": 2}) for number, text in enumerate(TEXTS)}
    del values['"x"']
    assert held == values
    assert len(found) == len(held)


@pytest.mark.parametrize("pinned", SINGLY, ids=lambda pinned: pinned.name)
def test_what_a_cluster_sets_otherwise_changes_no_row(
    spark: SparkSession, tmp_path: Path, pinned: PinnedSetting
) -> None:
    with said(spark, {pinned.name: pinned.hostile}):
        assert [s for s in open_session()[1] if s.startswith(f"{pinned.name}={pinned.hostile} ")]
        exercise(spark, tmp_path / "in", f"settings.{pinned.name.replace('.', '_').replace('-', '_')}")


def test_what_a_cluster_sets_otherwise_all_at_once_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    hostile = {pinned.name: pinned.hostile for pinned in PINNED} | LEGACY
    jvm: Any = spark._jvm
    locale, zone = jvm.java.util.Locale.getDefault(), jvm.java.util.TimeZone.getDefault()
    with said(spark, hostile):
        sentences = open_session()[1]
        assert [s.partition("=")[0] for s in sentences] == [*(p.name for p in PINNED), *sorted(LEGACY)]
        # Of the machine: in Turkish the small letter of I is another one.
        jvm.java.util.Locale.setDefault(jvm.java.util.Locale.forLanguageTag("tr-TR"))
        jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone("America/Sao_Paulo"))
        try:
            exercise(spark, tmp_path / "in", "settings.all")
        finally:
            jvm.java.util.Locale.setDefault(locale)
            jvm.java.util.TimeZone.setDefault(zone)


def test_changes_read_in_a_session_of_the_readers_own_are_right_and_leave_its_settings(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = Files(path=f"{tmp_path}/in/*.jsonl", format="json", schema="t STRING, n INT")
    flow = Flow(spark, "settings.read", tmp_path / "in", {"source": source, "keys": ("t",), "delete_when": None})
    flow.changes["exclude_columns"] = ()
    flow.inbox.mkdir()
    (flow.inbox / "1.jsonl").write_text("".join(json.dumps({"t": text, "n": 1}) + "\n" for text in TEXTS))
    flow.apply("run 1")
    delete = DeleteRowsSpec(
        catalog="lake_default",
        table=flow.table,
        run=RunIdentity.of("dag", "d", "t", "-1"),
        where="t >= 'I'",
        proof=False,
    )
    delete_rows(spark, delete, Progress())
    first, second = (str(entry.snapshot_id) for entry in flow.loaded().history())
    hostile = {p.name: p.hostile for p in PINNED if "singlePass" not in p.name and "wap" not in p.name}
    with said(spark, hostile):
        before = settings_of(spark)
        old = read_changes(spark, flow.table, None, first, where="n = 1").collect()
        gone = read_changes(spark, flow.table, first, second).collect()
        assert settings_of(spark) == before
    assert sorted(found["t"] for found in old) == sorted(TEXTS)
    assert sorted((found["t"], found["_change_type"]) for found in gone) == [
        (text, "delete") for text in sorted(TEXTS) if text >= "I"
    ]


def test_no_setting_of_ours_makes_spark_warn_that_it_is_deprecated(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    sql_conf = jvm.org.apache.spark.sql.internal.SQLConf
    fresh: Any = spark.newSession()
    before = set(fresh._jsparkSession.sessionState().conf().settings().keySet())
    pin_settings(fresh)
    ours = set(fresh._jsparkSession.sessionState().conf().settings().keySet()) - before
    assert ours
    assert [name for name in ours if sql_conf.deprecatedSQLConfigs().contains(name)] == []
    assert {pinned.name for pinned in PINNED if pinned.value and _value(fresh, pinned.name) != pinned.value} == set()


def _value(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name)
