"""Inputs and outputs of a job as OpenLineage datasets: their names, with snapshot ids and row counts.

Only the official OpenLineage provider asks for them, so its packages are imported when it does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.reports.job import IncrementalReport, JobReport, LoadReport, Outcome
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_facts import TableFacts, TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.source_access import source_access

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_COUNTS = ("rowCount", "size", "fileCount")


def lineage(lake: LakeCatalogHook, tasks: Sequence[tuple[JobSpec, JobReport | None]]) -> OperatorLineage[Any, Any]:
    """Return the datasets of a job's tasks.

    :param tasks: with None for the report of one that failed; then datasets have neither versions nor counts.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    tables: dict[str, TableFacts | None] = {}
    lineages = [_Lineage(lake, spec, report, tables) for spec, report in tasks]
    # The provider gives it ten seconds, and a catalog may need a request for each table.
    with ThreadPoolExecutor(_most_readers(lake), "lineage") as readers:
        datasets = list(readers.map(lambda task: (task.inputs(), task.outputs()), lineages))
    return OperatorLineage(
        inputs=_once([dataset for inputs, _ in datasets for dataset in inputs]),
        outputs=_once([dataset for _, outputs in datasets for dataset in outputs]),
        job_facets=_query(lineages[0].spec) if len(lineages) == 1 else {},
    )


def _most_readers(lake: LakeCatalogHook) -> int:
    try:
        return lake.opened.most_readers()
    except LakeProviderError:
        return 1


def _query(spec: JobSpec) -> dict[str, Any]:
    """Return the SQL of a job as a facet: the author's query, never a predicate, which may name whom to forget."""
    from openlineage.client.facet_v2 import sql_job

    query = spec.source.query if isinstance(spec, LoadSpec) else getattr(spec, "query", None)
    return {"sql": sql_job.SQLJobFacet(query=query, dialect="spark")} if query else {}


def _once(datasets: Sequence[Any]) -> list[Any]:
    """Return each dataset once, as the last task has it, with the counts of all: an event names no dataset twice."""
    merged: dict[tuple[str, str], Any] = {}
    for dataset in datasets:
        name = dataset.namespace, dataset.name
        if name in merged:
            dataset.facets = {**merged[name].facets, **dataset.facets}
            for facets in ("inputFacets", "outputFacets"):
                if hasattr(dataset, facets):
                    setattr(dataset, facets, _added(getattr(merged[name], facets), getattr(dataset, facets)))
        merged[name] = dataset
    return list(merged.values())


def _added(some: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return statistics of both; a count that one of them does not know is not known."""
    added = {**some, **others}
    for name in some.keys() & others.keys():
        pairs = {count: (getattr(some[name], count), getattr(others[name], count)) for count in _COUNTS}
        sums = {count: a + b for count, (a, b) in pairs.items() if a is not None and b is not None}
        added[name] = type(others[name])(**sums)
    return added


@dataclass(frozen=True)
class _Lineage:
    lake: LakeCatalogHook
    spec: JobSpec
    report: JobReport | None
    tables: dict[str, TableFacts | None]

    def outputs(self) -> list[Any]:
        """Return the table that is written, and that of dead letters; nothing of a dry run."""
        spec, report = self.spec, self.report
        if report is not None and report.outcome is Outcome.PLANNED:
            return []
        table = self._load(spec.table)
        columns = self._column_lineage(spec, table) if isinstance(spec, LoadSpec) else {}
        written = self._output(spec.table, self._version(), self._output_statistics(table), columns)
        letters = report.dead_letters if isinstance(report, LoadReport) else None
        if not letters or not isinstance(spec, LoadSpec) or spec.dead_letter is None:
            return written
        return written + self._output(spec.dead_letter.table, None, {"rowCount": letters}, {})

    def _output(
        self, table: str, version: str | None, counts: dict[str, Any] | None, more: Mapping[str, Any]
    ) -> list[Any]:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import output_statistics_output_dataset

        name, facets = self._named(table, self._load(table), version)
        if name is None:
            return []
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        statistics: dict[str, Any] = {"outputStatistics": counted(**counts)} if counts is not None else {}
        return [OutputDataset(name.namespace, name.name, facets={**facets, **more}, outputFacets=statistics)]

    def _column_lineage(self, spec: LoadSpec, target: TableFacts | None) -> dict[str, Any]:
        """Return which columns are those of a lake table that is read as it is; of a query nobody knows."""
        from openlineage.client.facet_v2 import column_lineage_dataset as facet

        read = None if spec.source.is_made else next(iter(spec.source.lake_tables.values()), None)
        source = self._load(read.table) if read is not None else None
        name, _ = self._named(read.table, source, None) if read is not None else (None, {})
        if read is None or name is None or source is None or target is None:
            return {}
        left_out = {column.lower() for column in spec.exclude_columns}
        chosen = {column.lower() for column in read.columns or source.shape.names} - left_out
        columns = {column.lower(): column for column in source.shape.names if column.lower() in chosen}
        merges = getattr(getattr(spec, "merge_engine", None), "counts_rows", False)
        fields = {}
        for column in target.shape.names:
            if column.lower() in columns:
                kind = "AGGREGATION" if merges and column not in getattr(spec, "keys", ()) else "IDENTITY"
                how = facet.Transformation(type="DIRECT", subtype=kind)
                origin = facet.InputField(name.namespace, name.name, columns[column.lower()], [how])
                fields[column] = facet.Fields([origin])
        return {"columnLineage": facet.ColumnLineageDatasetFacet(fields=fields)} if fields else {}

    def inputs(self) -> list[Any]:
        """Return what is read: files, tables, or the written table where it is rewritten."""
        spec, report = self.spec, self.report
        if isinstance(spec, IncrementalSpec):
            done = report if isinstance(report, IncrementalReport) else None
            upto = done.to_snapshot if done is not None else None
            return self._table_input(spec.source, upto or spec.to_snapshot, _sum(done, "upserts_read", "deletes_read"))
        if isinstance(spec, LoadSpec):
            return self._batch(spec)
        if isinstance(spec, DeleteRowsSpec) and spec.keys_from is not None:
            return self._source(spec.keys_from, None, None, None)
        if isinstance(spec, CompactionSpec):
            before = report.before if report is not None else None
            return self._table_input(spec.table, before.snapshot if before else None, None)
        return []

    def _batch(self, spec: LoadSpec) -> list[Any]:
        report = self.report if isinstance(self.report, LoadReport) else None
        target = self._load(spec.table) if spec.source.lake_tables and spec.branch is None and report else None
        consumed = SourcePosition.read(target.properties if target is not None else {}, spec.source_name)
        # Rows of several inputs are not told apart.
        is_told = report is not None and report.committed and len(spec.source.inputs) == 1
        rows, files = (report.batch_rows, report.batch_files) if report is not None and is_told else (None, None)
        return [
            dataset
            for name, read in spec.source.inputs.items()
            for dataset in self._source(read, consumed.of_input(name).snapshot, rows, files)
        ]

    def _source(self, source: Source, version: str | None, rows: int | None, files: int | None) -> list[Any]:
        tables = [table.table for table in source.lake_tables.values()]
        if table := next(iter(tables), source.letters):
            return self._table_input(table, version, rows)
        path = source.files.path if source.files else self._address(source) or ""
        name = name_of_files(getattr(self.report, "source_location", None) or path)
        return [_input(name, {}, rows, files)] if name else []

    def _address(self, source: Source) -> str | None:
        """Return what is read by a connection; no driver says it of one among several, nor of a job that failed."""
        try:
            return source.address({name: source_access(name, kind) for name, kind in source.connections.items()})
        except LakeProviderError:
            return None

    def _table_input(self, name: str, version: str | None, rows: int | None) -> list[Any]:
        dataset, facets = self._named(name, self._load(name), version)
        return [_input(dataset, facets, rows, None)] if dataset else []

    def _named(
        self, table: str, loaded: TableFacts | None, version: str | None
    ) -> tuple[DatasetName | None, dict[str, Any]]:
        """Return a table's name and facets; by its place in the catalog where no location is known."""
        from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset, symlinks_dataset

        connection, parsed = self.lake.connection, TableName.parse(table)
        location = loaded.location if loaded is not None else default_location(connection, parsed)
        by_location = name_of_location(location) if location else None
        by_catalog = name_in_catalog(connection, parsed)
        facets: dict[str, Any] = {"catalog": self._catalog()}
        if by_location and by_catalog:
            identifier = symlinks_dataset.Identifier(by_catalog.namespace, by_catalog.name, "TABLE")
            facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier])
        if version is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version)
        if loaded is not None:
            columns = [
                schema_dataset.SchemaDatasetFacetFields(name=name, type=loaded.shape.columns[name])
                for name in loaded.shape.names
            ]
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=columns)
        return by_location or by_catalog, facets

    def _catalog(self) -> Any:
        from openlineage.client.facet_v2 import catalog_dataset

        connection = self.lake.connection
        return catalog_dataset.CatalogDatasetFacet(
            framework=connection.table_format,
            # As Spark's integration has it.
            type="jdbc" if connection.kind == "sql" else connection.kind,
            name=connection.catalog_name,
            metadataUri=connection.fields.uri,
            warehouseUri=connection.warehouse,
        )

    def _version(self) -> str | None:
        """Return the snapshot that the job left, its own where it committed."""
        report = self.report
        if report is None:
            return None
        state: TableState | None = report.after or report.before
        return report.committed[-1] if report.committed else state.snapshot if state is not None else None

    def _output_statistics(self, table: TableFacts | None) -> dict[str, Any] | None:
        report = self.report
        if report is None or not report.committed:
            return None
        snapshot = table.snapshots.get(report.committed[-1]) if table is not None else None
        summary = snapshot.summary if snapshot is not None else {}
        return {
            "rowCount": _sum(report, "rows_inserted", "rows_updated", "rows_appended", "rows_written"),
            "size": whole_number(summary.get("added-files-size")),
            "fileCount": whole_number(summary.get("added-data-files")),
        }

    def _load(self, name: str) -> TableFacts | None:
        if name not in self.tables:
            try:
                self.tables[name] = self.lake.loaded(name).facts
            except LakeProviderError:
                self.tables[name] = None
        return self.tables[name]


def _input(name: DatasetName, facets: dict[str, Any], rows: int | None, files: int | None) -> Any:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset

    more: dict[str, Any] = {}
    if rows is not None or files is not None:
        counted = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows, fileCount=files)
        more = {"inputStatistics": counted}
    return InputDataset(name.namespace, name.name, facets=facets, inputFacets=more)


def _sum(report: JobReport | None, *names: str) -> int | None:
    """Return the sum of the counts that a report has; None without any."""
    counts = [count for name in names if (count := getattr(report, name, None)) is not None]
    return sum(counts) if counts else None


_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_OBJECT_STORES = ("s3", "gs", "abfss", "wasbs", "oss")
# Names in these begin without a slash; a table's is database.schema.table.
_WITHOUT_ROOT = (*_OBJECT_STORES, "postgres", "mysql", "kafka")
_WILDCARD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class DatasetName:
    """One dataset.

    :param namespace: of the data source, ``s3://bucket``.
    :param name: within it.
    """

    namespace: str
    name: str


def name_of_location(location: str) -> DatasetName | None:
    """Return the name of a folder or file; None for what is no absolute path and no URL.

    :param location: ``s3://bucket/warehouse/shop/orders``, ``file:///mnt/in``, ``/mnt/in``; a user in it is left out.
    """
    try:
        # Nothing of a store is a fragment.
        parts = urlsplit(location, allow_fragments=False)
    except ValueError:
        # Of one table, whose location anybody may have written; the others of a job are named.
        return None
    scheme, path = _SAME_SCHEME.get(parts.scheme, parts.scheme), parts.path.rstrip("/")
    if scheme in ("", "file"):
        return DatasetName("file", path or "/") if location.startswith(("/", "file:/")) else None
    if not parts.netloc:
        return None
    # The container of Azure stands where other stores have a user.
    before, at, host = parts.netloc.rpartition("@")
    host = f"{before.partition(':')[0]}{at}{host}" if scheme in ("abfss", "wasbs") else host
    return DatasetName(f"{scheme}://{host}", (path.lstrip("/") if scheme in _WITHOUT_ROOT else path) or "/")


def name_of_files(path: str) -> DatasetName | None:
    """Return the name of input files: of a pattern, the folder before its first wildcard."""
    plain = _WILDCARD.split(path, maxsplit=1)[0]
    return name_of_location(path if plain == path else f"{plain.rpartition('/')[0]}/")


def name_in_catalog(connection: CatalogConnection, table: TableName) -> DatasetName | None:
    """Return the name of a table in its catalog; None where nothing names the catalog.

    Nothing of it is a secret: the URI of a connection holds none.
    """
    fields = connection.fields
    if connection.kind == "rest":
        return DatasetName(str(fields.uri), str(table))
    if connection.kind == "hive":
        address = str(fields.uri).partition(",")[0]
        return DatasetName(f"hive://{urlsplit(address).netloc}", str(table))
    if connection.kind == "glue":
        region = next((fields.properties[n] for n in ("glue.region", "client.region") if n in fields.properties), None)
        account = fields.properties.get("glue.id")
        is_named = region is not None and account is not None
        return DatasetName(f"arn:aws:glue:{region}:{account}", f"table/{'/'.join(table.levels)}") if is_named else None
    return name_of_location(f"{connection.warehouse}/{table}")


def default_location(connection: CatalogConnection, table: TableName) -> str | None:
    """Return where a catalog puts a table unless it is told otherwise; None where the server decides."""
    warehouse = connection.warehouse or ""
    is_place = "://" in warehouse or warehouse.startswith(("/", "file:/"))
    return f"{warehouse.rstrip('/')}/{'/'.join(table.levels)}" if is_place else None
