"""A random life of a table with keys of any type in files of any format, and the dict that it has to equal."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, UUIDType
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table, expire_snapshots
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow
from tests.spark.key_types import KEY_TYPES, KeyType, plain
from tests.spark.typed_predicates import Key, drawn_predicate
from tests.spark.upsert_flow import Flow

FORMATS = ("parquet", "orc", "avro")
METRICS = ("none", "counts", "truncate(1)", "truncate(16)", "full")
_METRICS = "write.metadata.metrics.default"


@dataclass
class TypedHistory:
    """One table.

    :param kinds: of the key columns ``k0``, ``k1``...
    :param version: format version that it begins with.
    :param formats: of its files, those that are gone included.
    :param told: every step as text, for a failure.
    """

    flow: Flow
    random: Random
    kinds: tuple[KeyType, ...]
    version: str
    formats: set[str]
    model: dict[Key, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    def drawn(cls, spark: SparkSession, folder: Path, seed: str, **fixed: Any) -> TypedHistory:
        """Draw a table.

        :param fixed: ``kinds``, ``file_format``, ``version`` or ``metrics`` in place of drawn ones.
        """
        random = Random(seed)
        names = [random.choice(sorted(KEY_TYPES)) for _ in range(random.choice((1, 1, 1, 2)))]
        kinds = tuple(KEY_TYPES[name] for name in fixed.get("kinds", names))
        file_format = fixed.get("file_format") or random.choice(FORMATS)
        version = fixed.get("version") or random.choice("233")
        metrics = fixed.get("metrics") or random.choice(METRICS)
        place = random.randrange(len(kinds))
        terms = (random.choice(kinds[place].transforms).format(f"k{place}"),)
        partition_by = random.choice(((), (), terms))
        layout = TableLayout(
            partition_by=partition_by,
            file_format=file_format,
            properties={"format-version": version, _METRICS: metrics},
        )
        flow = Flow(spark, f"typed.t_{uuid.uuid4().hex[:8]}", folder)
        flow.changes = {
            "source": Files(path=f"{folder}/*.parquet", format="parquet"),
            "keys": tuple(f"k{number}" for number in range(len(kinds))),
            "delete_when": "op = 'd'",
            "exclude_columns": ("op",),
            "create": layout,
        }
        folder.mkdir(parents=True, exist_ok=True)
        history = cls(flow, random, kinds, version, {file_format})
        if "UUID" in {kind.name for kind in kinds}:
            history.make_uuid_table(layout)
        names = [kind.name for kind in history.kinds]
        told = f"{seed}: {names}, {file_format}, v{version}, metrics {metrics}, {list(partition_by)}"
        history.told.insert(0, told)
        return history

    def make_uuid_table(self, layout: TableLayout) -> None:
        # Spark has no such type: PyIceberg makes the table, with whatever Spark makes of the other columns.
        others = [NestedField(i + 1, "k", UUIDType(), required=True) for i in range(len(self.kinds))]
        fields = [NestedField(f.field_id, f"k{i}", f.field_type, required=True) for i, f in enumerate(others)]
        self.kinds = tuple(KEY_TYPES["UUID"] for _ in self.kinds)
        value = NestedField(len(fields) + 1, "v", IntegerType(), required=False)
        schema = Schema(*fields, value, identifier_field_ids=[f.field_id for f in fields])
        properties = {**layout.properties, "format-version": "2", "write.format.default": layout.file_format}
        self.flow.catalog().create_table(self.flow.table, schema, properties=properties)
        if self.version == "3":
            self.sql("ALTER TABLE {} SET TBLPROPERTIES ('format-version' = '3')")
        if layout.partition_by:
            self.sql("ALTER TABLE {} ADD PARTITION FIELD bucket(3, k0)")

    def sql(self, statement: str) -> None:
        self.told.append(statement)
        self.flow.spark.sql(statement.format(self.flow.table))

    def job(self) -> dict[str, Any]:
        run = RunIdentity.of("dag", f"run {next(self.numbers)}", "task", "-1")
        return {"catalog": "lake_default", "table": self.flow.table, "run": run}

    def drawn_keys(self, most: int) -> list[Key]:
        """Draw different keys, more often than not such as the table has."""
        keys: dict[Key, None] = {}
        held = sorted(self.model, key=str)
        for _ in range(self.random.randint(1, most)):
            fresh = tuple(self.random.choice(kind.values) for kind in self.kinds)
            keys[self.random.choice(held) if held and self.random.random() < 0.5 else fresh] = None
        return list(keys)

    def arrow(self, keys: list[Key], *values: tuple[str, pa.DataType, list[Any]]) -> pa.Table:
        columns = {f"k{i}": pa.array([key[i] for key in keys], kind.arrow) for i, kind in enumerate(self.kinds)}
        return pa.table({**columns, **{name: pa.array(given, kind) for name, kind, given in values}})

    def upsert(self) -> None:
        keys = self.drawn_keys(6)
        values = [self.random.randrange(50) for _ in keys]
        ops = [self.random.choice("uuud") if self.model else "u" for _ in keys]
        strategy = self.random.choice([*UpsertStrategy])
        self.told.append(f"upsert {strategy.value} {list(zip(keys, values, ops, strict=True))}")
        rows = self.arrow(keys, ("v", pa.int32(), values), ("op", pa.string(), ops))
        file = self.flow.inbox / f"{next(self.numbers):04}.parquet"
        pq.write_table(rows, file)
        try:
            self.flow.apply(f"upsert {file.name}", strategy=strategy)
        except UnsupportedError:
            if strategy is not UpsertStrategy.EQUALITY:
                raise
            # It says what to use instead.
            self.flow.apply(f"upsert {file.name}")
        for key, value, op in zip(keys, values, ops, strict=True):
            if op == "d":
                self.model.pop(key, None)
            else:
                self.model[key] = value

    def delete_keys(self) -> None:
        keys = self.drawn_keys(3)
        self.told.append(f"delete keys {keys}")
        file = self.flow.inbox / f"keys-{next(self.numbers)}.pq"
        pq.write_table(self.arrow(keys), file)
        source = Files(path=str(file), format="parquet")
        names = tuple(f"k{number}" for number in range(len(self.kinds)))
        delete_rows(
            self.flow.spark, DeleteRowsSpec(**self.job(), keys_from=source, keys=names, proof=False), Progress()
        )
        for key in keys:
            self.model.pop(key, None)

    def delete_where(self) -> None:
        predicate = drawn_predicate(self.random, self.kinds)
        self.told.append(f"delete where {predicate.sql}")
        matching = [key for key, value in self.model.items() if predicate.holds(key, value)]
        spec = DeleteRowsSpec(**self.job(), where=predicate.sql, proof=self.random.random() < 0.3)
        report = delete_rows(self.flow.spark, spec, Progress())
        assert (report.rows_deleted or 0) == len(matching), (report, matching)
        if spec.proof and matching:
            assert report.retained_by, report
        for key in matching:
            del self.model[key]

    def update_where(self) -> None:
        predicate = drawn_predicate(self.random, self.kinds)
        self.told.append(f"update where {predicate.sql}")
        spec = UpdateRowsSpec(**self.job(), assignments={"v": "(v + 1) % 50"}, where=predicate.sql)
        update_rows(self.flow.spark, spec, Progress())
        for key, value in self.model.items():
            if predicate.holds(key, value):
                self.model[key] = (value + 1) % 50

    def append(self) -> None:
        """Rows of another writer: Spark, or PyIceberg where it can."""
        keys = [key for key in self.drawn_keys(4) if key not in self.model]
        if not keys:
            return
        table = self.flow.loaded()
        # PyIceberg writes Parquet alone, no format version 3, and no partition by a hash.
        is_parquet = table.properties.get("write.format.default", "parquet") == "parquet"
        is_plain = is_parquet and table.metadata.format_version == 2 and table.spec().is_unpartitioned()
        by_python = is_plain and "UUID" not in {kind.name for kind in self.kinds}
        self.told.append(f"append {keys} by {'PyIceberg' if by_python else 'Spark'}")
        rows = self.arrow(keys, ("v", pa.int32(), [7] * len(keys)))
        if by_python:
            # The keys are required.
            schema = table.schema().as_arrow()
            table.append(pa.Table.from_arrays([c.combine_chunks() for c in rows.cast(schema).columns], schema=schema))
            self.formats.add("parquet")
        else:
            file = self.flow.inbox / f"theirs-{next(self.numbers)}.pq"
            pq.write_table(rows, file)
            theirs = self.random.choice(["parquet", "orc", "avro"])
            self.flow.spark.read.parquet(str(file)).writeTo(self.flow.table).option("write-format", theirs).append()
            self.formats.add(theirs)
        self.model.update(dict.fromkeys(keys, 7))

    def delete_by_spark(self) -> None:
        bound = self.random.randrange(50)
        self.sql(f"DELETE FROM {{}} WHERE v = {bound}")
        self.model = {key: value for key, value in self.model.items() if value != bound}

    def compact(self) -> None:
        level = self.random.choice([CompactionLevel.MAJOR, CompactionLevel.MINOR, CompactionLevel.FULL])
        self.told.append(f"compact {level.value}")
        report = compact_table(
            self.flow.spark, CompactionSpec(**self.job(), level=level, min_input_files=2), Progress()
        )
        assert report.outcome in (Outcome.DONE, Outcome.NOTHING_DUE), report

    def expire(self) -> None:
        now = datetime.now(UTC) + timedelta(seconds=1)
        self.told.append("expire")
        spec = SnapshotExpirySpec(**self.job(), expire_before=now, expire_stage_branches_before=now, retain_last=1)
        expire_snapshots(self.flow.spark, spec, Progress())

    def alter(self) -> None:
        name, value = self.random.choice(
            [(_METRICS, self.random.choice(METRICS)), ("write.format.default", self.random.choice(FORMATS))]
        )
        self.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ('{name}' = '{value}')")
        self.formats |= {value} & set(FORMATS)

    def upgrade(self) -> None:
        self.sql("ALTER TABLE {} SET TBLPROPERTIES ('format-version' = '3')")

    def play(self, steps: int) -> None:
        """Play so many steps and compare after each."""
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.upsert, 8),
            (self.delete_keys, 2),
            (self.delete_where, 3),
            (self.update_where, 3),
            (self.append, 2),
            (self.delete_by_spark, 1),
            (self.compact, 2),
            (self.expire, 1),
            (self.alter, 2),
            (self.upgrade, 1),
        ]
        for number in range(steps):
            choices, weights = zip(*kinds, strict=True)
            step = self.random.choices(choices, weights)[0] if number else self.upsert
            step()
            self.check()
        self.check_changes()

    def check(self) -> None:
        """Compare with PyIceberg's reading; of ORC, Avro and equality deletes with Spark's, nothing pushed down."""
        table = self.flow.loaded()
        head = table.current_snapshot()
        summary = head.summary.additional_properties if head is not None and head.summary is not None else {}
        outside = self.formats == {"parquet"} and int(summary.get("total-equality-deletes", 0)) == 0
        # A session keeps a table for a while, and does not see what another process commits.
        self.flow.spark.catalog.refreshTable(self.flow.table)
        rows = table.scan().to_arrow() if outside else to_arrow(self.flow.spark.table(self.flow.table))
        found = [self.key(row) for row in rows.to_pylist()]
        expected = sorted(f"({key}, {v})" for key, v in self.model.items())
        assert sorted(map(str, found)) == expected, "\n".join([*self.told, f"expected {expected}, got {found}"])

    def key(self, row: dict[str, Any]) -> tuple[Key, int]:
        keys = (plain(row[f"k{i}"]) for i in range(len(self.kinds)))
        return tuple(keys), row["v"]

    def check_changes(self) -> None:
        """Compare a read of everything that satisfies a predicate."""
        table = self.flow.loaded()
        if table.metadata.format_version < 3 or table.current_snapshot() is None:
            return
        predicate = drawn_predicate(self.random, self.kinds)
        self.told.append(f"read where {predicate.sql}")
        changes = read_changes(self.flow.spark, self.flow.table, None, None, mode="upserts", where=predicate.sql)
        rows = to_arrow(changes)
        found = sorted(str(self.key(row)) for row in rows.to_pylist())
        wanted = sorted(str((key, v)) for key, v in self.model.items() if predicate.holds(key, v))
        assert found == wanted, "\n".join(self.told)
