"""Arrow finds the differences between a table and Parquet files that Spark finds, and Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random, randrange
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.batch import table_differences
from airflow_lake_provider.spark_jobs.batch.arrow_comparison import key_order, ordered_rows
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.unlike_rows import rows_of_keys, unlike_rows
from airflow_lake_provider.spark_jobs.batch.change_batch import release_frames
from airflow_lake_provider.spark_jobs.batch.table_differences import Differences, WholeRows
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import compared_rows as subject
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.formats.suite import ALL
from tests.spark.upsert_flow import Flow

TEXTS = ["", "a", "é😀", "eight by", "\0", "a\0", "twenty bytes of text" * 3]
NAN, EPOCH = float("nan"), datetime(2026, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "count": (pa.int32(), [0, 1, -(2**31)]),
    "long": (pa.int64(), [0, 1, 2**62]),
    "ratio": (pa.float32(), [0.0, -0.0, NAN, 1.5]),
    "score": (pa.float64(), [0.0, -0.0, NAN, math.inf, 1e-300]),
    "day": (pa.date32(), [date(2026, 1, 1), date(1582, 10, 15)]),
    "at": (pa.timestamp("us", tz="UTC"), [EPOCH, EPOCH + timedelta(microseconds=1), datetime(1900, 1, 1, tzinfo=UTC)]),
    "local": (pa.timestamp("us"), [datetime(2026, 1, 1)]),  # noqa: DTZ001  # without a zone
    "price": (pa.decimal128(9, 2), [Decimal("1.00"), Decimal("-1.01")]),
    "wide": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(10**37 + 1)]),
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), [text.encode() for text in TEXTS]),
}
KEYS = {"name": (pa.string(), TEXTS), "number": (pa.int64(), [*range(12)])}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in {**KEYS, **VALUES}.items()])
DDL = (
    "name STRING, number BIGINT, flag BOOLEAN, count INT, long BIGINT, ratio FLOAT, score DOUBLE, day DATE, "
    "at TIMESTAMP, local TIMESTAMP_NTZ, price DECIMAL(9,2), wide DECIMAL(38,0), text STRING, bytes BINARY"
)
KEY_ORDER = "airflow_lake_provider.spark_jobs.batch.arrow_comparison.unlike_rows.key_order"
Row = dict[str, Any]
BY_ARROW = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no groups by Arrow")


def rows_of(random: Random, count: int, base: list[Row], nulls_in_keys: float) -> list[Row]:
    """Make rows, of which many are those of before, or differ from one in a value."""
    rows = []
    for _ in range(count):
        row = {name: None if random.random() < 0.2 else random.choice(values) for name, (_, values) in VALUES.items()}
        if base and random.random() < 0.8:
            before, name = random.choice(base), random.choice([*VALUES])
            row = {**before, **({name: row[name]} if random.random() < 0.3 else {})}
        else:
            keys = {name: random.choice(values) for name, (_, values) in KEYS.items()}
            row |= {name: None if random.random() < nulls_in_keys else value for name, value in keys.items()}
        rows.append(row)
    return rows


def canonical(row: Row) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(row[name], float) and math.isnan(row[name]) else row[name] for name in VALUES)


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS)


def expected(table: list[Row], batch: list[Row]) -> tuple[set[Any], set[Any]]:
    """Return the keys that are new or differ, and those that the batch lacks; none with NULL."""
    sides: list[dict[Any, list[Any]]] = [defaultdict(list), defaultdict(list)]
    for side, rows in zip(sides, (table, batch), strict=True):
        for row in rows:
            if None not in key_of(row):
                side[key_of(row)].append(canonical(row))
    old, new = sides
    changed = {key for key in old.keys() & new.keys() if len({*old[key], *new[key]}) > 1}
    return (new.keys() - old.keys()) | changed, set(old.keys() - new.keys())


@pytest.fixture
def table(spark: SparkSession) -> Callable[..., str]:
    def create(columns: str, version: int = 3, **properties: str) -> str:
        name = f"compared.t{uuid4().hex[:8]}"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.compared")
        given = {"format-version": str(version), "write.delete.mode": "merge-on-read", **properties}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg TBLPROPERTIES ({listed})")
        return name

    return create


@pytest.fixture(autouse=True)
def compares_small_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "LEAST_BYTES", 0)


def written(folder: Path, *parts: pa.Table, **options: Any) -> list[InputFile]:
    files = []
    for number, rows in enumerate(parts):
        file = folder / f"{number}-{uuid4().hex[:6]}.parquet"
        pq.write_table(rows, file, **options)
        files.append(InputFile(f"file:{file}", file.stat().st_size, "0"))
    return files


def whole_rows(spark: SparkSession, name: str, files: list[InputFile], keys: list[str], **more: Any) -> WholeRows:
    batch = spark.read.option("mergeSchema", "true").parquet(*(file.path for file in files))
    rows = spark.table(name)
    return WholeRows(table=rows, batch=batch, schema=rows.schema, keys=keys, stored=batch.columns, **more)


def by_arrow(spark: SparkSession, name: str, files: list[InputFile], whole: WholeRows) -> WholeRows:
    iceberg = IcebergTable(spark, "lake_default", TableName.parse(name)).refresh()
    head = iceberg.head()
    assert head is not None
    rows = subject.compared_rows(iceberg, head, whole.of_files(files))
    return WholeRows(**{**vars(whole), "by_arrow": rows})


def answers(whole: WholeRows, cached: list[DataFrame]) -> tuple[Differences, set[Any], set[Any], list[Any]]:
    differences = whole.differences(100, cached)
    stored = sorted(map(str, whole.stored_upserts(whole.batch, differences).collect()))
    upserts = {tuple(row) for row in whole.stored_upserts(whole.batch, differences).select(*whole.keys).collect()}
    return differences, upserts, {tuple(row) for row in whole.deleted_keys(differences).collect()}, stored


@BY_ARROW
@pytest.mark.parametrize("in_ranges", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_random_rows_differ_for_arrow_where_they_do_for_spark_and_for_python(
    spark: SparkSession,
    table: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    in_ranges: bool,
) -> None:
    # A key column with NULL has no order.
    nulls_in_keys = 0 if in_ranges else 0.05
    if not in_ranges:
        monkeypatch.setattr(KEY_ORDER, lambda *_: None)
    seed = randrange(10**9) if ALL else version
    print(f"the rows of seed {seed}")
    random, name = Random(seed), table(DDL, version)
    old = [rows_of(random, 60, [], nulls_in_keys), rows_of(random, 60, [], 0)]
    for rows in old:
        for file in written(tmp_path, pa.Table.from_pylist(rows, SCHEMA), coerce_timestamps="us"):
            spark.read.parquet(file.path).writeTo(name).append()
    # Deletes lie on rows of the one snapshot, by positions or by a vector.
    spark.sql(f"DELETE FROM {name} WHERE number = 3 AND flag")
    left = [row for rows in old for row in rows if not (row["number"] == 3 and row["flag"])]
    new = rows_of(random, 150, left, nulls_in_keys)
    parts = [pa.Table.from_pylist(new[place::2], SCHEMA) for place in range(2)]
    files = written(tmp_path, parts[0], row_group_size=20)
    # As Spark writes times: in INT96.
    by_pyarrow = written(tmp_path, parts[1])[0].path
    spark.read.parquet(by_pyarrow).write.parquet(f"{tmp_path}/by-spark")
    files += [InputFile(f"file:{each}", each.stat().st_size, "0") for each in (tmp_path / "by-spark").glob("*.parquet")]
    cached: list[DataFrame] = []
    spark_rows = whole_rows(spark, name, files, [*KEYS])
    arrow_rows = by_arrow(spark, name, files, spark_rows)
    of_spark, of_arrow = answers(spark_rows, cached), answers(arrow_rows, cached)
    assert of_arrow[0].by_arrow is not None, of_arrow[0].left_to_spark
    assert of_arrow[0].key_of_ranges == ("name" if in_ranges else None)
    assert of_arrow[0].counts == of_spark[0].counts
    assert of_arrow[1:] == of_spark[1:]
    upserts, deletes = expected(left, new)
    without_null = [{key for key in keys if None not in key} for keys in of_arrow[1:3]]
    assert without_null == [upserts, deletes]
    # Of a key that comes twice, rows are compared once more, now that Spark has read them. Of a key that the table has
    # twice, one of its rows is compared, and nothing says which.
    cached.append(latest := spark_rows.of_upserts(spark_rows.batch, of_spark[0]).dropDuplicates([*KEYS]).persist())
    latest.count()
    once = {key for key, rows in Counter(map(key_of, left)).items() if rows == 1} | upserts - set(map(key_of, left))
    unlike = [
        {tuple(row) for row in each.unlike_table(latest, found[0]).select(*KEYS).collect()} & once
        for each, found in ((spark_rows, of_spark), (arrow_rows, of_arrow))
    ]
    assert unlike[0] == unlike[1]
    assert unlike[0]
    release_frames(*cached)


@BY_ARROW
def test_a_table_that_was_loaded_from_an_export_is_compared_by_ranges_of_its_key(
    spark: SparkSession, table: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_order, "_LEAST_BYTES", 1 << 10)
    name = table("id BIGINT, at TIMESTAMP, n INT", **{"write.target-file-size-bytes": "4096"})
    spark.sql(f"INSERT INTO {name} SELECT id, timestamp_seconds(id), 0 FROM range(20000)")
    # As an earlier load left it: rows that were deleted, and newer ones in a file of their own.
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    spark.sql(f"INSERT INTO {name} SELECT id * 10 + 3, timestamp_seconds(id), 1 FROM range(1900) ORDER BY id % 7")
    before = {row["id"]: row["n"] for row in spark.table(name).collect()}
    after = {**{id_: n for id_, n in before.items() if id_ % 4_000}, 5: 9, 19_999: 9, 50_000: 9}
    ids = [*after]
    at = pa.array([0] * len(ids), pa.timestamp("us", tz="UTC"))
    rows = pa.table({"id": ids, "at": at, "n": pa.array(after.values(), pa.int32())}).sort_by("id")
    spark.sql(f"UPDATE {name} SET at = timestamp_seconds(0)")
    files = written(tmp_path, *(rows.slice(begin, 3_000) for begin in range(0, rows.num_rows, 3_000)))
    cached: list[DataFrame] = []
    differences, upserts, deletes, _ = answers(
        by_arrow(spark, name, files, whole_rows(spark, name, files, ["id"])), cached
    )
    assert differences.key_of_ranges == "id"
    assert (upserts, deletes) == ({(5,), (19_999,), (50_000,)}, {(id_,) for id_ in before if id_ % 4_000 == 0})
    assert differences.counts.unchanged == len(after) - 3
    release_frames(*cached)


@BY_ARROW
def test_an_evolved_schema_and_files_without_a_column_are_compared_alike(
    spark: SparkSession, table: Callable[..., str], tmp_path: Path
) -> None:
    name = table("id INT, gone STRING, a STRING, n INT")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x', 'one', 1), (2, 'x', 'two', 2)")
    for change in (
        "DROP COLUMN gone",
        "RENAME COLUMN a TO b",
        "ALTER COLUMN n TYPE BIGINT",
        "ADD COLUMN a STRING FIRST",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    spark.sql(f"INSERT INTO {name} VALUES ('new', 3, 'three', 3)")
    ids = pa.array([1, 2, 3], pa.int32())
    first = pa.table({"B": ["one"], "ID": ids[:1], "n": pa.array([1])})
    files = written(tmp_path, first, pa.table({"ID": ids[1:], "n": [2, 3], "a": [None, "new"], "B": ["two", "3"]}))
    whole = whole_rows(spark, name, files, ["ID"])
    cached: list[DataFrame] = []
    arrow = by_arrow(spark, name, files, whole)
    found = answers(arrow, cached)
    assert found[0].by_arrow is not None, found[0].left_to_spark
    assert (found[1], found[2], found[0].counts.unchanged) == ({(3,)}, set(), 2)
    # A column that the batch lacks, or does not store, is NULL.
    without_a = WholeRows(**{**vars(whole), "stored": ["ID", "n", "B"]})
    found = answers(by_arrow(spark, name, files, without_a), cached)
    assert found[0].by_arrow is not None, found[0].left_to_spark
    assert found[1] == answers(without_a, cached)[1] == {(3,)}
    release_frames(*cached)


OLD = {
    "time": pa.array([datetime(1899, 12, 31, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
    "day": pa.array([date(1582, 10, 4)]),
}


@BY_ARROW
@pytest.mark.parametrize("column", OLD)
def test_values_that_calendars_disagree_on_are_left_to_spark(
    spark: SparkSession, table: Callable[..., str], tmp_path: Path, column: str
) -> None:
    name = table("id INT, time TIMESTAMP, day DATE")
    spark.sql(f"INSERT INTO {name} (id) VALUES (1)")
    files = written(tmp_path, pa.table({"id": pa.array([1], pa.int32()), column: OLD[column]}))
    cached: list[DataFrame] = []
    differences = by_arrow(spark, name, files, whole_rows(spark, name, files, ["id"])).differences(1, cached)
    assert differences.by_arrow is None
    assert "before 1582 or times before 1900" in str(differences.left_to_spark)
    release_frames(*cached)


@BY_ARROW
def test_rows_that_workers_have_not_read_are_not_taken_for_gone(
    spark: SparkSession, table: Callable[..., str], tmp_path: Path
) -> None:
    name = table("id BIGINT, n BIGINT")
    spark.sql(f"INSERT INTO {name} SELECT id, id FROM range(100)")
    files = written(tmp_path, pa.table({"id": [*range(100)], "n": [*range(100)]}), row_group_size=10)
    # A file that was written anew is longer than its listing says.
    listed = [InputFile(file.path, file.size // 2, file.version) for file in files]
    cached: list[DataFrame] = []
    differences = by_arrow(spark, name, listed, whole_rows(spark, name, files, ["id"])).differences(100, cached)
    assert (differences.counts.deletes, differences.by_arrow) == (0, None)
    assert str(differences.left_to_spark).endswith("rows of the batch, and Spark 100")
    release_frames(*cached)


@BY_ARROW
@pytest.mark.parametrize("in_ranges", [False, True])
def test_rows_that_are_lost_with_an_executor_are_not_left_out_where_they_cannot_be_read_again(
    spark: SparkSession, table: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_ranges: bool
) -> None:
    if not in_ranges:
        monkeypatch.setattr(KEY_ORDER, lambda *_: None)
    name = table("id BIGINT, n BIGINT")
    spark.sql(f"INSERT INTO {name} SELECT id, id FROM range(100)")
    files = written(tmp_path, pa.table({"id": [*range(90)], "n": [0] * 90}))
    cached: list[DataFrame] = []

    def lost(*given: Any) -> Any:
        unlike = unlike_rows(*given)
        cached[0].unpersist(blocking=True)
        Path(files[0].path.removeprefix("file:")).unlink()
        return unlike

    monkeypatch.setattr(table_differences, "unlike_rows", lost)
    # A retry is safe.
    with pytest.raises(SparkRuntimeException, match=r"changed meanwhile: .* again: FileNotFoundError"):
        by_arrow(spark, name, files, whole_rows(spark, name, files, ["id"])).differences(100, cached)
    release_frames(*cached)


def load(flow: Flow, rows: pa.Table, run: str = "run 1", **changes: Any) -> None:
    flow.inbox.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, flow.inbox / f"{run}.parquet")
    source = Files(path=f"{flow.inbox}/*.parquet", format="parquet")
    given = {"is_complete": True, "delete_when": None, "source": source, "max_deleted_share": 1, **changes}
    flow.apply(run, **given)


@BY_ARROW
def test_a_load_says_that_arrow_compares_and_the_table_becomes_what_the_source_holds(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = pa.array(range(1000))
    load(flow, pa.table({"id": ids, "name": [f"name {number}" for number in range(1000)]}))
    (flow.inbox / "run 1.parquet").unlink()
    rows = {**{number: f"name {number}" for number in range(100, 1000)}, 7: "new", 200: "changed"}
    load(flow, pa.table({"id": [*rows], "name": [*rows.values()]}), "run 2")
    assert "upserts, 99 deletes, by Arrow, in ranges of id" in capsys.readouterr().out
    assert {row["id"]: row["name"] for row in flow.spark.table(flow.table).collect()} == rows


@BY_ARROW
def test_a_source_of_which_most_rows_differ_is_read_again_and_not_kept_whole(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_rows, "_MOST_BYTES_GIVEN", 1 << 10)
    load(flow, pa.table({"id": [*range(1000)], "n": [0] * 1000}))
    (flow.inbox / "run 1.parquet").unlink()
    reads = []
    read_again = rows_of_keys

    def counted(*given: Any) -> DataFrame:
        reads.append(given)
        return read_again(*given)

    monkeypatch.setattr(table_differences, "rows_of_keys", counted)
    load(flow, pa.table({"id": [*range(1000)], "n": [*range(1000)]}), "run 2")
    assert len(reads) == 1
    assert all(row["id"] == row["n"] for row in flow.spark.table(flow.table).collect())
    assert flow.spark.table(flow.table).count() == 1000


CHANGED: dict[str, tuple[type[Exception], str, Callable[[Path], Any]]] = {
    "is gone": (JobFailedError, "was listed and is gone", Path.unlink),
    "is cut off": (BadInputError, "it is cut off", lambda file: file.write_bytes(file.read_bytes()[:-9])),
    "has another type": (BadInputError, "another type", lambda file: pq.write_table(pa.table({"id": ["a"]}), file)),
}


@BY_ARROW
@pytest.mark.parametrize("change", CHANGED)
def test_a_file_that_changes_before_the_second_look_is_named_as_spark_names_it(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    error, text, changes = CHANGED[change]
    # Rows of ranges are not read again.
    monkeypatch.setattr(KEY_ORDER, lambda *_: None)
    load(flow, PLAIN)
    (flow.inbox / "run 1.parquet").unlink()
    read_again = WholeRows.stored_upserts

    def changed_before(whole: WholeRows, rows: DataFrame, differences: Differences) -> DataFrame:
        assert differences.by_arrow is not None
        changes(flow.inbox / "run 2.parquet")
        return read_again(whole, rows, differences)

    monkeypatch.setattr(WholeRows, "stored_upserts", changed_before)
    with pytest.raises(error, match=text):
        load(flow, pa.table({"id": [1, 3], "n": [1, 3]}), "run 2")
    assert {row["id"] for row in flow.spark.table(flow.table).collect()} == {1, 2}


PLAIN = pa.table({"id": [1, 2], "n": [1, 2]})
NULLS = SchemaContract(missing_columns="null")
LEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "a column flags deleted rows": ("", {"merge_engine": Deduplicate(deletes="soft")}),
    "the source is not Parquet files as they are": ("", {"source": {"options": {"mergeSchema": "true"}}}),
    "column tags is of type list": ("ALTER TABLE {} ADD COLUMN tags ARRAY<STRING>", {"schema_contract": NULLS}),
    "column n is int, in the table bigint": ("", {"rows": pa.table({"id": [1], "n": pa.array([2], pa.int32())})}),
    "a partition is a column": ("ALTER TABLE {} ADD PARTITION FIELD n", {}),
}


def test_a_pyspark_without_groups_by_arrow_compares_by_spark(
    flow: Flow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "has_groups_by_arrow", lambda: False)
    load(flow, PLAIN)
    (flow.inbox / "run 1.parquet").unlink()
    load(flow, PLAIN.slice(1), "run 2")
    assert f"by Spark (PySpark {pyspark.__version__} gives Python workers no groups" in capsys.readouterr().out


@pytest.mark.parametrize("reason", LEFT)
def test_what_is_not_plain_is_compared_by_spark_and_says_why(
    flow: Flow, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    statement, changes = LEFT[reason][0], dict(LEFT[reason][1])
    engine = {name: changes[name] for name in ("merge_engine",) if name in changes}
    load(flow, PLAIN, **engine)
    if statement:
        flow.spark.sql(statement.format(flow.table))
    given = Files(path=f"{flow.inbox}/*.parquet", format="parquet", **changes.pop("source", {}))
    (flow.inbox / "run 1.parquet").unlink()
    load(flow, changes.pop("rows", PLAIN.slice(1)), "run 2", source=given, **changes)
    compared = [line for line in capsys.readouterr().out.splitlines() if "compare:" in line]
    assert f"by Spark ({reason}" in compared[0]
