"""Compare the rows before and after a compaction, at pinned snapshots, where its author asks for it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.maintenance_policy import Verification
from airflow_lake_provider.contracts.errors import BrokenInvariantError
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

# A sum of hashes of 64 bits of any number of rows that a table may have.
_SUM = "decimal(38,0)"
_MOST_NAMED = 5


def refuse_changed_rows(table: IcebergTable, spec: CompactionSpec, ours: list[str]) -> None:
    """Refuse commits after which a partition has other rows: another number, or another checksum of their keys.

    The checksum is the sum of a hash of each row's key, so that the order of rows does not matter. Commits of others in
    between are left out: each stretch of own commits is compared by itself. Partitions are told apart where the table
    has had one partition spec alone, as a rewrite moves files to the newest.

    :param ours: ids of the snapshots that the compaction has committed, oldest first.
    :raises BrokenInvariantError: naming the partitions.
    """
    if spec.verify is None:
        return
    for before, after in _stretches(table, ours):
        columns = _rows(table, spec.verify, before, -1).unionAll(_rows(table, spec.verify, after, 1))
        sums = columns.groupBy("partition").agg(sf.sum("side").alias("rows"), sf.sum("hash").alias("hash"))
        changed = sums.where("rows <> 0 OR hash <> 0").orderBy("partition").limit(_MOST_NAMED).collect()
        if changed:
            named = "; ".join(f"{row['partition'] or 'the table'}: {row['rows']:+,} rows" for row in changed)
            raise BrokenInvariantError(
                f"{table.name}: the rows of snapshot {after} are not those of snapshot {before}, from which this "
                f"compaction made them, by number or keys: {named}. Do not run it again. Roll back to {before}"
            )


def _stretches(table: IcebergTable, ours: list[str]) -> list[tuple[str, str]]:
    """Return the snapshot before each stretch of own commits, and the last one of it."""
    stretches: list[tuple[str, str]] = []
    for id_ in ours:
        parent = table.facts.snapshots[id_].parent
        if stretches and stretches[-1][1] == parent:
            stretches[-1] = (stretches[-1][0], id_)
        elif parent is not None and parent in table.facts.snapshots:
            stretches.append((parent, id_))
    return stretches


def _rows(table: IcebergTable, verify: Verification, snapshot: str, side: int) -> DataFrame:
    has_one_spec = table.java.specs().size() == 1 and table.java.spec().isPartitioned()
    partition = sf.col("_partition").cast("string") if has_one_spec else sf.lit("")
    digest = sf.lit(0)
    if verify is Verification.KEYS:
        then = table.java.schemas().get(table.java.snapshot(int(snapshot)).schemaId()) or table.java.schema()
        ids = sorted(int(each) for each in table.java.schema().identifierFieldIds())
        digest = sf.xxhash64(*(sf.col(_quoted(then.findColumnName(each))) for each in ids))
    hashed = digest.cast(_SUM) * sf.lit(side)
    rows = table.rows_at(int(snapshot))
    return rows.select(partition.alias("partition"), sf.lit(side).alias("side"), hashed.cast(_SUM).alias("hash"))


def _quoted(path: str) -> str:
    return ".".join(map(quoted_name, path.split(".")))
