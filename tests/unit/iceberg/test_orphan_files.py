"""Rules of orphan files: kinds by names, hidden paths, spellings of one file, and what a stream may still commit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts, facts_of
from airflow_lake_provider.iceberg.orphan_files import file_key, hidden, kind_of, metadata_version, removable_before

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000-1-0a-0-00001.parquet", "data file"),
        ("00000-1-0a-0-00001.orc", "data file"),
        ("00000-1-0a-0-00001.avro", "data file"),
        ("00000-1-0a-00001-deletes.parquet", "delete file"),
        ("00000-1-0a-00001-deletes.puffin", "delete file"),
        ("0a-m12.avro", "manifest"),
        ("snap-77-1-0a.avro", "manifest list"),
        ("00012-0a.metadata.json", "metadata file"),
        ("00012-0a.gz.metadata.json", "metadata file"),
        ("v3.metadata.json", "metadata file"),
        ("version-hint.text", "metadata file"),
        ("20260101_77-0a.stats", "statistics file"),
        ("partition-stats-77-0a.parquet", "statistics file"),
        ("README.md", "other file"),
        ("part.parquet.bak", "other file"),
    ],
)
def test_a_file_is_of_a_kind_by_its_name(name: str, kind: str) -> None:
    assert kind_of(f"s3://b/t/folder/{name}") == kind


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("00012-0a.metadata.json", 12),
        ("v3.metadata.json", 3),
        ("v3.gz.metadata.json", 3),
        ("00000-0a.metadata.json", 0),
        ("x.metadata.json", None),
        ("12a.metadata.json", None),
        ("00012-0a.json", None),
    ],
)
def test_a_metadata_file_has_a_number(name: str, version: int | None) -> None:
    assert metadata_version(f"s3://b/t/metadata/{name}") == version


SAME = [
    ("s3://b/t/x", "s3a://b/t/x"),
    ("hdfs://nn/t/x", "/t/x"),
    ("file:/t/x", "file:///t/x"),
    ("s3://b/t//x", "s3://b/t/x"),
    ("s3://b/t/a b/x", "s3://b/t/a%20b/x"),
    ("s3://b/t/a%20b/x", "s3://b/t/a%2520b/x"),
    ("s3://b/t/é/x", "s3://b/t/%C3%A9/x"),
    ("s3://b/t/k=a+b/x", "s3://b/t/k=a%2Bb/x"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings_that_may_be_one_file_have_one_key(one: str, other: str) -> None:
    assert file_key(one) == file_key(other)


@pytest.mark.parametrize(("one", "other"), [("/t/x", "/t/X"), ("/t/a/x", "/t/ax"), ("/t/x-1", "/t/x-2")])
def test_two_files_have_two_keys(one: str, other: str) -> None:
    assert file_key(one) != file_key(other)


@pytest.mark.parametrize(
    ("path", "fields", "is_hidden"),
    [
        ("data/x.parquet", [], False),
        ("_quarantine/x.parquet", [], True),
        ("data/_x.parquet", [], True),
        ("data/.x", [], True),
        ("data/_day=1/x.parquet", [], True),
        ("data/_day=1/x.parquet", ["_day"], False),
        ("data/_day=1/_x.parquet", ["_day"], True),
        ("data/_day/x.parquet", ["_day"], True),
        ("data/_days=1/x.parquet", ["_day"], True),
        ("data/.a%2Bb=1/x.parquet", [".a+b"], False),
        ("data/a_b/c.d/x.parquet", ["a"], False),
    ],
)
def test_a_path_is_hidden_but_for_a_partition_of_such_a_name(path: str, fields: list[str], is_hidden: bool) -> None:
    assert (re.search(hidden(fields), path) is not None) is is_hidden


SINK = "kafka.connect.offsets.control-orders.connect-orders"


def facts(*commits: tuple[timedelta, str | None]) -> IcebergFacts:
    """Facts of a table with commits of some ages, of the Kafka Connect sink or a Flink job; the oldest first."""
    snapshots = []
    for number, (age, job) in enumerate(commits, 1):
        summary = {"operation": "append"}
        if job == SINK:
            summary |= {SINK: '{"0":7}', "kafka.connect.commit-id": "0a"}
        elif job is not None:
            summary |= {"flink.job-id": job, "flink.max-committed-checkpoint-id": str(number)}
        parent = {} if number == 1 else {"parent-snapshot-id": number - 1}
        at = epoch_millis(NOW - age)
        snapshots.append({"snapshot-id": number, "timestamp-ms": at, "summary": summary, **parent})
    metadata = {
        "format-version": 2,
        "location": "s3://b/t",
        "schemas": [{"schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "snapshots": snapshots,
        "refs": {"main": {"snapshot-id": len(commits), "type": "branch"}} if commits else {},
    }
    return facts_of("a.b", metadata)


@pytest.mark.parametrize(
    ("commits", "asked", "before", "writer"),
    [
        ([], 3 * DAY, 3 * DAY, None),
        # However little is asked for, files of a day stay.
        ([], DAY / 2, DAY, None),
        ([(DAY / 24, "a")], 3 * DAY, 3 * DAY, None),
        # What was written since the last commit of a job may be in its savepoint.
        ([(5 * DAY, "a")], 3 * DAY, 6 * DAY, "Flink job a (last commit"),
        ([(5 * DAY, "a"), (DAY, None)], 3 * DAY, 6 * DAY, "Flink job a"),
        ([(6 * DAY, "a"), (DAY, "b")], 3 * DAY, 7 * DAY, "Flink job a"),
        # So may be what a sink has named in its control topic, while its coordinator cannot commit.
        ([(5 * DAY, SINK), (DAY, None)], 3 * DAY, 6 * DAY, "Kafka Connect sink 'control-orders.connect-orders' (last"),
        ([(6 * DAY, SINK), (5 * DAY, SINK), (4 * DAY, "a")], 3 * DAY, 6 * DAY, "Flink job a"),
        ([(DAY, SINK)], 3 * DAY, 3 * DAY, None),
        ([(8 * DAY, SINK)], 3 * DAY, 3 * DAY, None),
        # After a week a job counts as gone.
        ([(8 * DAY, "a")], 3 * DAY, 3 * DAY, None),
        ([(5 * DAY, "a")], 9 * DAY, 9 * DAY, None),
    ],
)
def test_files_stay_that_a_stream_has_written_and_may_commit_yet(
    commits: list[tuple[timedelta, str | None]], asked: timedelta, before: timedelta, writer: str | None
) -> None:
    moment, why = removable_before(facts(*commits), NOW - asked, NOW, DAY, 7 * DAY)
    assert NOW - moment == before
    assert (why is not None) is (writer is not None)
    assert (writer or "") in str(why)
