"""A table with deletes by key and by position in any order, and beside it the rows that it must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyspark.sql import SparkSession

TYPES = {
    "number": ("INT", pa.int32(), (None, 1, 2, 3)),
    "text": ("STRING", pa.string(), (None, "", "a", "é")),
    "price": ("DECIMAL(9, 2)", pa.decimal128(9, 2), (None, Decimal("1.50"), Decimal("2.00"))),
    "raw": ("BINARY", pa.binary(), (None, b"", b"\x00\xff")),
    "day": ("DATE", pa.date32(), (None, date(1969, 12, 31), date(2026, 11, 28))),
    "region": ("STRING", pa.string(), (None, "null", "north")),
}
Values = dict[str, Any]
VALUES = st.fixed_dictionaries({name: st.sampled_from(domain) for name, (_, _, domain) in TYPES.items()})
KEYS = st.sampled_from([("number",), ("text", "raw"), ("price",), ("day", "number"), ("region",), ("region", "text")])
SPECS = st.integers(0, 1)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A commit of rows and of deletes by key, both of one sequence number.

    :param region: of a file of the partitioned spec.
    """

    rows: Sequence[Values] = ()
    keys: Sequence[str] = ()
    deletes: Sequence[Values] = ()
    spec: int = 0
    region: str | None = None


COMMITS = st.builds(
    Written,
    rows=st.lists(VALUES, max_size=4),
    keys=KEYS,
    deletes=st.lists(VALUES, max_size=2),
    spec=SPECS,
    region=st.sampled_from(TYPES["region"][2]),
)


@dataclass
class Row:
    values: Values
    id: int
    scope: tuple[int, str | None]


@dataclass
class KeyedDeleteTable:
    """The spec 0 has no partitions, spec 1 has the identity of ``region``."""

    spark: SparkSession
    version: int
    granularity: str = "file"
    rows: list[Row] = field(default_factory=list)
    ids: int = 0
    name: str = field(default_factory=lambda: f"lake_default.maintained.keyed_{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.maintained")
        self.spark.sql(
            f"CREATE TABLE {self.name} (id BIGINT, {columns}) USING iceberg TBLPROPERTIES ('format-version'="
            f"'{self.version}', 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='{self.granularity}')"
        )
        self.spark.sql(f"ALTER TABLE {self.name} ADD PARTITION FIELD region")

    def write(self, java: Any, written: Written) -> None:
        """Commit, and apply it to the rows: a delete by key reaches rows of earlier commits alone."""
        spec = java.specs().get(written.spec)
        delta = java.newRowDelta()
        region = {"region": written.region} if written.spec else {}
        if written.deletes:
            values = [{key: {**each, **region}[key] for key in written.keys} for each in written.deletes]
            self._delete_rows(written, values)
            delta.addDeletes(self._delete_file(java, spec, written, values))
        if written.rows:
            new = [
                Row({**each, **region}, self.ids + place, (written.spec, region.get("region")))
                for place, each in enumerate(written.rows)
            ]
            self.ids += len(new)
            self.rows += new
            delta.addRows(self._data_file(java, spec, written, new))
        delta.commit()

    def delete(self, ids: Sequence[int]) -> None:
        """Delete rows by position."""
        listed = ", ".join(map(str, ids))
        self.spark.sql(f"DELETE FROM {self.name} WHERE id IN ({listed})")
        self.rows = [row for row in self.rows if row.id not in ids]

    def _delete_rows(self, written: Written, values: list[Values]) -> None:
        self.rows = [
            row
            for row in self.rows
            if (written.spec and row.scope != (written.spec, written.region))
            or all(any(row.values[key] != each[key] for key in written.keys) for each in values)
        ]

    def _delete_file(self, java: Any, spec: Any, written: Written, values: list[Values]) -> Any:
        jvm: Any = self.spark._jvm
        ids = self.spark.sparkContext._gateway.new_array(jvm.int, len(written.keys))  # type: ignore[union-attr]  # it runs
        for place, key in enumerate(written.keys):
            ids[place] = int(java.schema().findField(key).fieldId())
        builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(ids)
        return self._built(java, builder, spec, written, pa.Table.from_pylist(values, _schema(java, written.keys)))

    def _data_file(self, java: Any, spec: Any, written: Written, new: list[Row]) -> Any:
        rows = pa.Table.from_pylist([{"id": row.id, **row.values} for row in new], _schema(java, ("id", *TYPES)))
        jvm: Any = self.spark._jvm
        return self._built(java, jvm.org.apache.iceberg.DataFiles.builder(spec), spec, written, rows)

    def _built(self, java: Any, builder: Any, spec: Any, written: Written, rows: pa.Table) -> Any:
        path = Path(urlsplit(str(java.location())).path) / "data" / f"{uuid4().hex}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        builder = builder.withPath(f"file:{path}").withFormat("parquet")
        builder = builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(rows.num_rows)
        if written.spec:
            jvm: Any = self.spark._jvm
            partition = jvm.org.apache.iceberg.PartitionData(spec.partitionType())
            partition.set(0, written.region)
            builder = builder.withPartition(partition)
        return builder.build()


def _schema(java: Any, names: Sequence[str]) -> pa.Schema:
    types = {"id": pa.int64(), **{name: kind for name, (_, kind, _) in TYPES.items()}}
    ids = {name: str(java.schema().findField(name).fieldId()) for name in names}
    return pa.schema([pa.field(name, types[name], metadata={"PARQUET:field_id": ids[name]}) for name in names])
