"""One Iceberg table as a driver sees it: its Java handle, its heads and what its metadata says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.applied_history import MainHistory
from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    CommitConflictError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.table_facts import MAIN, Snapshot, TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.table_properties import STAGE_BRANCH_PREFIX
from airflow_lake_provider.iceberg.foreign_times import times_are_sure
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts, facts_of
from airflow_lake_provider.iceberg.table_obstacles import without_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.added_milliseconds import read_milliseconds_by_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.table.load_table import load_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.trusted_table import (
    catalog_settings,
    refuse_code_properties,
    refuse_foreign_file_io,
    refuse_foreign_metadata_log,
    uuid_in_file,
)
from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import texts_of
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from airflow_lake_provider.spark_jobs.sql.older_pyspark import has_version_option, table_at

_BARRIER = "_lake_barrier"
_TOTAL_RECORDS = "total-records"


def unpruned(rows: DataFrame) -> DataFrame:
    """Return rows of which no later filter reaches the scan."""
    # Spark pushes no predicate below an expression that is not deterministic.
    numbered = rows.withColumn(_BARRIER, sf.monotonically_increasing_id())
    return numbered.filter(sf.col(_BARRIER) >= 0).drop(_BARRIER)


@dataclass
class IcebergTable:
    """A table of a catalog of the session; the Java handle is loaded once and refreshed on demand."""

    spark: SparkSession
    catalog: str
    name: TableName
    _java: Any = field(default=None, init=False, repr=False)
    _facts: tuple[str | None, IcebergFacts] | None = field(default=None, init=False, repr=False)
    _spark_schema: tuple[str | None, StructType] = field(default=(None, StructType()), init=False, repr=False)

    @property
    def sql_name(self) -> str:
        """Catalog, namespace and table in backticks."""
        return self.name.quoted(self.catalog)

    def exists(self) -> bool:
        """Tell whether the catalog has the table now."""
        try:
            if len(self.name.namespace) == 1:
                return bool(self.spark.catalog.tableExists(self.sql_name))
            # Spark calls a part of another table one, too.
            return bool(load_table(self.spark, self.catalog, self.name))
        except MissingTableError:
            return False
        except UnsupportedOperationException:
            # Spark has no type for one of its columns, so it is there.
            return True

    @property
    def java(self) -> Any:
        """``org.apache.iceberg.Table``, from the session's own catalog so that Spark sees every commit made with it.

        :raises MissingTableError: the catalog does not have it.
        """
        if self._java is None:
            self._take(load_table(self.spark, self.catalog, self.name))
        return self._java

    @property
    def iceberg(self) -> Any:
        """Iceberg's package, ``org.apache.iceberg``."""
        return jvm_of(self.spark).org.apache.iceberg

    @property
    def java_catalog(self) -> Any:
        """``org.apache.iceberg.catalog.Catalog``."""
        return self.iceberg.spark.Spark3Util.loadIcebergCatalog(java_session(self.spark), self.catalog)

    @property
    def java_namespace(self) -> Any:
        """``org.apache.iceberg.catalog.Namespace``."""
        return self.iceberg.catalog.Namespace.of(java_array(self.spark, "java.lang.String", self.name.namespace))

    @property
    def java_actions(self) -> Any:
        """``org.apache.iceberg.spark.actions.SparkActions``."""
        return self.iceberg.spark.actions.SparkActions.get(java_session(self.spark))

    def refresh(self) -> IcebergTable:
        """Read the newest metadata from the catalog, for this handle and for what Spark reads from now on.

        Spark's catalog forgets a table that was not asked for in 30 seconds (Iceberg's
        ``cache.expiration-interval-ms``). It then takes another handle, which does not see what is committed by this
        one.
        """
        java = load_table(self.spark, self.catalog, self.name)
        java.refresh()
        self._take(java)
        return self

    def _take(self, java: Any) -> None:
        """Keep a handle whose table may be trusted; the metadata that is parsed for it is what is asked for next."""
        self._java = None
        refuse_foreign_file_io(self.spark, str(self.name), java, self.settings())
        self._java = java
        try:
            facts = self.facts
        except (BrokenMetadataError, UnsupportedError):
            self._java = None
            raise
        read_milliseconds_by_rows(self.spark, java, facts, facts.head())

    def _refuse_untrusted(self, metadata: dict[str, Any], location: str) -> None:
        refuse_code_properties(str(self.name), metadata.get("properties", {}), self.settings())
        refuse_foreign_metadata_log(
            str(self.name), metadata, location, lambda entry: uuid_in_file(self.spark, self.java.io(), entry)
        )

    def settings(self) -> dict[str, str]:
        """Return what the session says of the catalog, by Iceberg's names."""
        return catalog_settings(self.spark, self.catalog)

    def refresh_readable(self) -> IcebergTable:
        """Refresh a table whose rows are to be read or written.

        :raises UnsupportedError: Spark has no type for a column, or takes two columns for one; or Iceberg
            lacks the transform of a partition.
        """
        table = self.refresh()
        obstacle = without_rows(table.facts.shape)
        if obstacle is not None:
            raise UnsupportedError(f"{self.name}: {obstacle}")
        return self

    def properties(self) -> dict[str, str]:
        """Return the table properties, the reserved ones of the metadata left out."""
        return dict(self.facts.properties)

    def metadata_log(self) -> list[str]:
        """Return the locations of the earlier metadata files that the table names, oldest first."""
        return [location for _, location in self.facts.metadata_log]

    @property
    def facts(self) -> IcebergFacts:
        """Facts of the metadata, read once for each version of it.

        Asked one by one through the gateway, each property and each entry of a summary is a round trip.

        :raises BrokenMetadataError: the snapshots are such as no writer makes.
        """
        location = self._metadata_location()
        if self._facts is None or location is None or location != self._facts[0]:
            current = self.java.operations().current()
            metadata = json.loads(self.iceberg.TableMetadataParser.toJson(current))
            location = current.metadataFileLocation()
            facts = facts_of(str(self.name), metadata)
            self._refuse_untrusted(metadata, location or "")
            self._facts = location, facts
        return self._facts[1]

    def _metadata_location(self) -> str | None:
        """Return the location of the metadata file that the handle has loaded; None where that is not written yet."""
        location: str | None = java_functions(self.spark).metadata_location.apply(self.java)
        return location

    def schema(self) -> StructType:
        """Return columns and types as Spark has them, asked for once for each version of the metadata."""
        location = self._metadata_location()
        if location is None or location != self._spark_schema[0]:
            self._spark_schema = location, self.spark.table(self.sql_name).schema
        return self._spark_schema[1]

    def schema_of(self, snapshot_id: int) -> Mapping[str, Any]:
        """Return the schema that a snapshot was written with, in JSON; the present one where it does not say."""
        snapshot = self.facts.snapshots.get(str(snapshot_id))
        return self.facts.shape.schema(snapshot.schema_id if snapshot is not None else None)

    @property
    def schema_id(self) -> int:
        """Id of the current schema."""
        return self.facts.shape.schema_id

    @property
    def shape_id(self) -> str:
        """Identity of the table and of its current schema: a table that is created again numbers its fields anew."""
        return f"{self.facts.uuid} {self.schema_id}"

    def has_new_schema(self, snapshot_id: int) -> bool:
        """Tell whether the schema is another one than when a snapshot was committed."""
        snapshot = self.facts.snapshots.get(str(snapshot_id))
        return snapshot is not None and snapshot.schema_id not in (None, self.facts.shape.schema_id)

    def new_variants(self, snapshot_id: int) -> list[str]:
        """Return the columns of type VARIANT that the schema of a snapshot lacks.

        A scan of them ends with a NullPointerException: it asks that schema for the fields whose statistics it wants
        (``SparkScanBuilder.includeStats`` of Iceberg 1.12).
        """
        then, now = self.schema_of(snapshot_id), self.facts.shape.schema()
        known_ids = {field["id"] for field in then["fields"]}
        return [field["name"] for field in now["fields"] if field["type"] == "variant" and field["id"] not in known_ids]

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
        return self.facts.format_version

    @property
    def uuid(self) -> str:
        """Identity of the table; a table dropped and made again has another."""
        return str(self.java.uuid())

    def prepare_to_read(self, snapshot_id: int) -> None:
        """Let the session read the times of a snapshot right, as it does those of main's head for each handle."""
        java = self.java
        # As they were read with the handle: whether they are the newest is a command more, for every table.
        if self._facts is None or not times_are_sure(self._facts[1].properties):
            read_milliseconds_by_rows(self.spark, java, self.facts, str(snapshot_id))

    def rows_at(self, snapshot_id: int) -> DataFrame:
        """Return the live rows of a snapshot, by the schema of its time."""
        self.prepare_to_read(snapshot_id)
        if has_version_option(self.spark):
            rows = table_at(self.spark, self.sql_name, str(snapshot_id))
        else:
            # With VERSION AS OF the metadata columns are hidden behind an alias.
            rows = self.spark.table(f"{self.sql_name}.{quoted_name(f'snapshot_id_{snapshot_id}')}")
        return unpruned(rows) if self._has_other_names(snapshot_id) else rows

    def schema_at(self, snapshot_id: int) -> Any:
        """Return the ``org.apache.iceberg.Schema`` that a snapshot was written with."""
        return self.iceberg.util.SnapshotUtil.schemaFor(self.java, snapshot_id)

    def _has_other_names(self, snapshot_id: int) -> bool:
        """Tell whether a name of a snapshot's schema, nested or not, is another field's now, or nobody's.

        Iceberg 1.12 takes the names of a filter for those of now, and skips files by the bounds of another column.
        """
        if not self.has_new_schema(snapshot_id):
            return False
        schemas = self.schema_at(snapshot_id), self.java.schema()
        then, now = (self.iceberg.types.TypeUtil.indexByName(schema.asStruct()) for schema in schemas)
        return not now.entrySet().containsAll(then.entrySet())

    def rows_then(self, snapshot_id: int) -> DataFrame | None:
        """Return the live rows of a snapshot, in columns named as they are now; None where it has expired.

        Columns that were dropped since are left out, as are those that were not there then.
        """
        snapshot = self.java.snapshot(snapshot_id)
        if snapshot is None:
            return None
        then = self.java.schemas().get(snapshot.schemaId()) or self.java.schema()
        fields = [(field.name(), then.findField(field.fieldId())) for field in self.java.schema().columns()]
        kept = [sf.col(quoted_name(old.name())).alias(name) for name, old in fields if old is not None]
        return self.rows_at(snapshot_id).select(*kept)

    def rows_by_newest_schema(self, snapshot_id: int) -> DataFrame:
        """Return the live rows of a branch's head, as columns that may have been renamed since it was committed.

        Should the head move before they are read, they are those of the new one.
        """
        branches = self.branches_at(snapshot_id)
        if not branches or not self.has_new_schema(snapshot_id):
            return self.rows_at(snapshot_id)
        self.prepare_to_read(snapshot_id)
        # A snapshot that is named is read by the schema of its time, whose names may mean other columns now.
        rows = self.spark.table(f"{self.sql_name}.{quoted_name(f'branch_{branches[0]}')}")
        # No file has one. Iceberg's scan would end with a NullPointerException, see ``new_variants``.
        absent = set(self.new_variants(snapshot_id))
        nulls = {each.name: sf.lit(None).cast(each.dataType) for each in rows.schema if each.name in absent}
        return rows.withColumns(nulls) if nulls else rows

    def rows_of_base(self, snapshot_id: int) -> DataFrame:
        """Return the live rows of a head that a commit to this table starts from, by the names of columns now.

        :raises CommitConflictError: only those of a branch's head have them, and it is none any more.
        """
        if self.has_new_schema(snapshot_id) and not self.branches_at(snapshot_id):
            raise CommitConflictError(f"{self.name}: the branch has moved on from snapshot {snapshot_id}")
        return self.rows_by_newest_schema(snapshot_id)

    def branches_at(self, snapshot_id: int) -> list[str]:
        """Return the branches whose head is a snapshot, main first.

        A batch that is not published yet, and may never be, is written to its stage branch: that is none of them.
        """
        references = self.facts.references.values()
        names = [ref.name for ref in references if ref.is_branch and ref.snapshot == str(snapshot_id)]
        return sorted((name for name in names if not name.startswith(STAGE_BRANCH_PREFIX)), key=MAIN.__ne__)

    def changes_of(self, snapshot: Any) -> Any:
        """Return the files that a snapshot added and removed, an ``org.apache.iceberg.SnapshotChanges``.

        Those of the snapshot itself cannot be read where they are in partitions by a column that was dropped.
        """
        return self.iceberg.SnapshotChanges.builderFor(self.java).snapshot(snapshot).build()

    def head(self, branch: str = MAIN) -> int | None:
        """Return the snapshot id that a branch points to; None for a missing branch or a table without snapshots.

        A number, as Java takes it; facts have ids as text.
        """
        head = self.facts.head(branch)
        return None if head is None else int(head)

    def base_of(self, branch: str | None) -> str | None:
        """Return, as text, the head that a commit to a branch starts from."""
        return self.facts.head(self.origin_of(branch))

    def origin_of(self, branch: str | None) -> str:
        """Return the branch whose head a commit starts from.

        :param branch: None for main; one that is not there yet starts from main.
        """
        return MAIN if branch is None or self.facts.head(branch) is None else branch

    def ancestors(self, branch: str = MAIN) -> Iterator[Snapshot]:
        """Yield the snapshots of a branch, newest first, as far back as they are not expired."""
        return self.facts.ancestors(branch)

    def metadata_folders(self) -> set[str]:
        """Return the folders that its metadata is, or was, written to; each ends with a slash."""
        files = [*self.metadata_log(), self._metadata_location() or "", f"{self.facts.location.rstrip('/')}/metadata/"]
        files.append(str(self.java.operations().metadataFileLocation("")))
        return {f"{file.rpartition('/')[0]}/" for file in files}

    def history(self, branch: str = MAIN) -> MainHistory:
        """Return the snapshots that are known, those of main, or of another branch, apart."""
        return MainHistory.of(self.facts.head(branch), self.facts.snapshots)

    def summaries(self, branch: str = MAIN) -> Iterator[Mapping[str, str]]:
        """Yield the summaries of a branch, newest first."""
        return (snapshot.summary for snapshot in self.ancestors(branch))

    def summary(self, snapshot_id: int | str | None) -> Mapping[str, str]:
        """Return the summary of a snapshot; empty for None and for one that is not there."""
        snapshot = None if snapshot_id is None else self.facts.snapshots.get(str(snapshot_id))
        return snapshot.summary if snapshot is not None else {}

    def state(self, branch: str = MAIN) -> TableState:
        """Read counts from the head's summary and the metadata."""
        # Each look at the facts asks Java whether they are of the newest metadata.
        facts = self.facts
        state = facts.state(self._count_manifests, branch)
        return replace(state, rows=self._records(facts, state.snapshot) - state.deleted_rows)

    def records(self, snapshot_id: str | None) -> int:
        """Return the rows of a snapshot's data files, those that deletes hide included; 0 for None.

        Not every writer counts them in its summary. Then its manifests do.
        """
        return self._records(self.facts, snapshot_id)

    def _records(self, facts: IcebergFacts, snapshot_id: str | None) -> int:
        snapshot = None if snapshot_id is None else facts.snapshots.get(snapshot_id)
        summary = {} if snapshot is None else snapshot.summary
        if snapshot_id is None or _TOTAL_RECORDS in summary:
            return count_of(summary, _TOTAL_RECORDS)
        manifests = self.java.snapshot(int(snapshot_id)).dataManifests(self.java.io())
        row_count = java_functions(self.spark).of_manifest
        names = ("addedRowsCount", "existingRowsCount")
        counts = (text for name in names for text in texts_of(self.spark, manifests, row_count(name, "Long")))
        return sum(int(count) for count in counts if count != "null")

    def _count_manifests(self, snapshot_id: str) -> int:
        return int(self.java.snapshot(int(snapshot_id)).allManifests(self.java.io()).size())
