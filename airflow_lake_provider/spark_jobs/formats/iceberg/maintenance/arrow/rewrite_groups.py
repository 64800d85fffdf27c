"""Rewrite file groups of Iceberg's plan by Arrow: one job of Spark for all their splits, then their data files.

On one machine, what is small is rewritten in the driver, without a job.

Whatever goes wrong leaves a group to Spark's own rewrite, and no file of it behind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionRunner, CompactionStrategy
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.property_values import number_property
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.executors import (
    described_jobs,
    memory_obstacle,
    turns_in_driver,
    worker_obstacle,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import arrow_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import (
    TableFiles,
    is_local,
    local_path,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.s3_access import table_files
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import delete_locations, locations_of
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_conflict, is_unknown, root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal, internal
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.commit_groups import GroupCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.group_files import GroupFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.obstacles import row_order, table_obstacle
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.parquet_layout import ParquetLayout
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import (
    NewFile,
    Split,
    SplitResult,
    rewrite_splits,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.row_order import (
    MOST_SORTED_BYTES,
    TOO_MANY_ROWS,
    sort_columns,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.chosen_groups import CommittedGroups, RewriteStart
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError

_LOOKBACK = 10
# A task of small splits costs more than what it does.
_BYTES_OF_A_TASK = 32 << 20
# To start Python workers and a job takes longer than to rewrite so much of local files in the driver.
MOST_BYTES_IN_DRIVER = 16 << 20


@dataclass
class ArrowRewrite:
    """Rewrites file groups of a table, and remembers which it has left to Spark.

    :param obstacle: why it rewrites none at all. A job that fails becomes one: so would that of the next wave.
    :param reasons: why groups were left to Spark, and how many.
    :param indexes: global indexes of the groups that were rewritten by the newest plan.
    :param moved: rows that writers deleted meanwhile, and that commits have deleted in new files.
    """

    table: IcebergTable
    spec: CompactionSpec
    obstacle: str | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    indexes: frozenset[int] = frozenset()
    moved: int = 0
    _done: list[tuple[Split, SplitResult]] = field(default_factory=list)
    # Where files of splits begin, and the names of those that are used.
    _unused: list[tuple[str, set[str]]] = field(default_factory=list)
    _newest: TableFiles = field(default_factory=TableFiles)
    _order: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def discarded_on_failure(self, committed: Callable[[], Any | None]) -> Iterator[None]:
        """Delete new files when their commit was surely not made.

        :param committed: returns the files that commits of this run have added, a ``DataFileSet``.
        """
        try:
            yield
        except Exception as error:
            if not is_unknown(error):
                # The failure is what has to be told. Where nobody says what is committed, nothing is deleted.
                with suppress(Exception):
                    named = committed()
                    stay = set() if named is None else locations_of(self.table, JavaItems(self.table.spark, named))
                    delete_locations(self.table, _locations(self._done) - stay)
            raise
        finally:
            # Tasks of a job that has failed may have written a little longer.
            self._discard()

    def rewrite(self, groups: Sequence[Any]) -> dict[int, Any]:
        """Rewrite groups where it surely comes to what Spark's own rewrite does.

        :param groups: ``org.apache.iceberg.actions.RewriteFileGroup`` objects.
        :return: new files by place of the group, each a ``DataFileSet``.
        """
        files = [GroupFiles(self.table, group) for group in groups]
        # Asked anew for each wave: credentials may last no longer, and a writer may have changed schema or properties.
        self._newest, obstacle = self._opened()
        self._order = row_order(self.table, self.spec) if obstacle is None else {}
        obstacles = {
            place: obstacle or self._too_much_to_sort(of_group.group) or of_group.obstacle(self._newest)
            for place, of_group in enumerate(files)
        }
        fit = [place for place, obstacle in obstacles.items() if obstacle is None]
        splits = [split for place in fit for split in self._splits(place, files[place])]
        results, failure = self._run(splits, self._newest)
        rewritten: dict[int, Any] = {}
        for place, obstacle in obstacles.items():
            ours = [result for result in results if result.group == place]
            reason = obstacle or failure or _lost(ours, files[place].rows)
            if reason is None:
                try:
                    rewritten[place] = self._data_files(groups[place], ours)
                except SPARK_ERRORS as error:
                    reason = root_message(error)
            if reason is not None:
                self.reasons[reason] += 1
        done = zip(splits, results, strict=True) if results else ()
        self._done = [(split, result) for split, result in done if split.group in rewritten]
        self._unused = [(f"{split.stem}-", set()) for split in splits if split.group not in rewritten]
        repeated = [each for each in self._done if each[1].is_repeated]
        self._unused += [(f"{each[0].stem}-", set(map(_name, _locations([each])))) for each in repeated]
        self._discard()
        self.indexes = frozenset(int(groups[place].info().globalIndex()) for place in rewritten)
        return rewritten

    def commit(
        self,
        start: RewriteStart,
        groups: Sequence[Any],
        files: Sequence[Any],
        *,
        summary: dict[str, str],
        at_once: int | None,
    ) -> CommittedGroups:
        """Commit all groups of the newest plan, as :class:`GroupCommit` does.

        :param files: of each group, as :meth:`rewrite` has returned them.
        :param at_once: groups of a commit. Those of one that fails, or has no answer, do not keep back others. None
            for a single commit, whose failure is raised.
        """
        done: list[Any] = []
        errors: list[JavaError] = []
        size = at_once or len(groups)
        for begin in range(0, len(groups), size):
            chosen = range(begin, min(begin + size, len(groups)))
            splits = [each for each in self._done if each[0].group in chosen]
            commit = GroupCommit(
                table=self.table,
                groups=[groups[place] for place in chosen],
                files=[files[place] for place in chosen],
                splits=splits,
                opened=self._newest,
                summary=summary,
            )
            try:
                self.moved += commit.commit(start)
            except JavaError as error:
                if at_once is None:
                    raise
                errors.append(error)
                if not is_unknown(error):
                    delete_locations(self.table, _locations(splits))
            else:
                done += commit.groups
            # What is committed, or may be, is deleted by nobody, whatever becomes of the others and of the snapshot.
            self._done = [each for each in self._done if each[0].group not in chosen]
        return CommittedGroups(
            indexes=tuple(int(group.info().globalIndex()) for group in done),
            bytes=sum(int(group.inputFilesSizeInBytes()) for group in done),
            messages=tuple(map(root_message, errors)),
            is_refused=any(map(is_conflict, errors)),
        )

    def _opened(self) -> tuple[TableFiles, str | None]:
        """Return how workers open files, or why they do not."""
        obstacle = self.obstacle or table_obstacle(self.table, self.spec)
        if obstacle is not None:
            return TableFiles(), obstacle
        try:
            return table_files(self.table), None
        except UnsupportedError as error:
            return TableFiles(), str(error)

    def _too_much_to_sort(self, group: Any) -> str | None:
        is_sort = self.spec.strategy is CompactionStrategy.SORT
        if is_sort and group.expectedOutputFiles() > 1:
            return "rows are sorted into several files"
        size = group.inputFilesSizeInBytes() if is_sort else min(group.inputFilesSizeInBytes(), group.inputSplitSize())
        return TOO_MANY_ROWS if self._order["fields"] and size > MOST_SORTED_BYTES else None

    def _parts(self, files: GroupFiles) -> list[tuple[FilePart, ...]]:
        """Cut a group where Spark's own rewrite would."""
        table, group = self.table, files.group
        if self.spec.strategy is CompactionStrategy.SORT:
            return [files.parts(group.fileScanTasks())]
        lookback = number_property(str(table.name), table.properties(), "read.split.planning-lookback") or _LOOKBACK
        planned = table.iceberg.util.TableScanUtil.planTaskGroups(
            group.fileScanTasks(), group.inputSplitSize(), lookback, 0
        )
        return [files.parts(tasks.tasks()) for tasks in JavaItems(table.spark, planned)]

    def _splits(self, place: int, files: GroupFiles) -> list[Split]:
        table, group = self.table, files.group
        spec = table.java.specs().get(group.outputSpecId())
        name, schema = uuid4(), str(table.iceberg.SchemaParser.toJson(table.java.schema()))
        sources = frozenset(int(each.sourceId()) for each in spec.fields())
        layout, lineage = ParquetLayout.of(table.properties()), table.format_version >= 3
        order = sort_columns(self._order, arrow_schema(json.loads(schema), has_row_lineage=lineage))
        return [
            Split(
                group=place,
                stem=self._stem(spec, files.partition, f"{number:05d}-{name}"),
                schema=schema,
                has_row_lineage=lineage,
                partition_sources=sources,
                layout=layout,
                most_bytes=int(group.maxOutputFileSize()),
                parts=parts,
                order=order,
                constants=files.constants,
            )
            for number, parts in enumerate(self._parts(files))
        ]

    def _stem(self, spec: Any, partition: Any, name: str) -> str:
        locations = self.table.java.locationProvider()
        of_partition = (spec, partition, name) if spec.isPartitioned() else (name,)
        return str(locations.newDataLocation(*of_partition))

    def _run(self, splits: Sequence[Split], opened: TableFiles) -> tuple[list[SplitResult], str | None]:
        """Run splits side by side, and return their results, or why the job failed.

        What is quick is run here, where no other machine has executors. Else credentials are in a broadcast, as
        Iceberg's own rewrite has them: neither in a closure nor in the event log.
        """
        if not splits:
            return [], None
        context = self.table.spark.sparkContext
        turns = turns_in_driver(self.table.spark) if _is_quick(splits) else None
        if turns is not None:
            with turns.one() as running:
                obstacle = self._memory_obstacle(running)
                return ([], obstacle) if obstacle else (list(rewrite_splits(splits, opened)), None)
        tasks = min(len(splits), max(context.defaultParallelism, _bytes_of(splits) // _BYTES_OF_A_TASK))
        at_once = min(tasks, context.defaultParallelism)
        if obstacle := worker_obstacle(self.table.spark) or self._memory_obstacle(at_once):
            return [], obstacle
        shared, rewrite = context.broadcast(opened), rewrite_splits
        try:
            with described_jobs(self.table.spark, f"rewrite {len(splits)} splits of {self.table.name} by Arrow"):
                work = context.parallelize(splits, tasks).mapPartitions(lambda part: rewrite(part, shared.value))
                return work.collect(), None
        except SPARK_ERRORS as error:
            self.obstacle = f"the job failed: {root_message(error)}"
            return [], self.obstacle
        finally:
            shared.destroy()

    def _memory_obstacle(self, at_once: int) -> str | None:
        # Who names Arrow has given executors the memory.
        is_chosen = self.spec.runner is CompactionRunner.ARROW
        return None if is_chosen else memory_obstacle(self.table.spark, at_once)

    def _discard(self) -> None:
        """Delete all that any attempt has written for splits and that is not used."""
        for beginning, used in self._unused:
            if (path := local_path(beginning)) is None:
                with suppress(*SPARK_ERRORS):
                    written = self._listed(beginning)
                    delete_locations(self.table, [each for each in written if _name(each) not in used])
                continue
            for file in Path(path).parent.glob(f"{Path(path).name}*.parquet"):
                with suppress(OSError):
                    if file.name not in used:
                        file.unlink()

    def _listed(self, beginning: str) -> list[str]:
        """Return the locations of a store that begin so."""
        lists = guava(self.table.spark).collect.Lists
        files = JavaItems(self.table.spark, lists.newArrayList(self.table.java.io().listPrefix(beginning)))
        return [str(each.location()) for each in files]

    def _data_files(self, group: Any, results: Sequence[SplitResult]) -> Any:
        files = self.table.iceberg.util.DataFileSet.create()
        for result in results:
            for file in result.files:
                files.add(self._data_file(group, file))
        return files

    def _data_file(self, group: Any, file: NewFile) -> Any:
        """Return a ``DataFile`` with the metrics of its footer, and those that no footer has."""
        table, spark = self.table, self.table.spark
        spec = table.java.specs().get(group.outputSpecId())
        config = table.iceberg.MetricsConfig.forTable(table.java)
        written = table.java.io().newInputFile(file.location)
        builder = (
            table.iceberg.DataFiles.builder(spec)
            .withPath(file.location)
            .withFormat(table.iceberg.FileFormat.PARQUET)
            .withFileSizeInBytes(file.size)
            .withMetrics(internal(spark, Internal.PARQUET_METRICS).fileMetrics(written, config))
        )
        if spec.isPartitioned():
            builder = builder.withPartition(group.fileScanTasks().get(0).file().partition())
        parser = internal(spark, Internal.CONTENT_FILES)
        modes = {id_: str(config.columnMode(metrics.name)) for id_, metrics in file.floats.items()}
        footer = json.loads(parser.toJson(builder.build(), spec))
        text = _completed({**footer, "sort-order-id": self._order["order-id"]}, file, modes)
        return parser.fromJson(table.iceberg.util.JsonUtil.mapper().readTree(text), spec)


def _completed(data_file: dict[str, Any], file: NewFile, modes: dict[int, str]) -> str:
    """Return a data file, as JSON, with what its footer does not say."""
    counts = ("value-counts", "null-value-counts", "nan-value-counts")
    maps = {
        name: dict(zip(*(data_file.get(name, {}).get(part, []) for part in ("keys", "values")), strict=True))
        for name in (*counts, "lower-bounds", "upper-bounds")
    }
    bounds = maps["lower-bounds"], maps["upper-bounds"]
    for id_, metrics in file.floats.items():
        for of_column in maps.values():
            of_column.pop(id_, None)
        if modes[id_] == "none":
            continue
        for name, count in zip(counts, (metrics.values, metrics.nulls, metrics.nans), strict=True):
            maps[name][id_] = count
        for of_column, bound in zip(bounds, (metrics.lower, metrics.upper), strict=True):
            if bound is not None and modes[id_] != "counts":
                of_column[id_] = bound
    for id_ in file.unbounded:
        for of_column in bounds:
            of_column.pop(id_, None)
    for name, by_id in maps.items():
        data_file[name] = {"keys": list(by_id), "values": list(by_id.values())}
    data_file["split-offsets"] = list(file.offsets)
    return json.dumps(data_file)


def _locations(splits: Sequence[tuple[Split, SplitResult]]) -> set[str]:
    return {file.location for _, result in splits for file in result.files}


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def _bytes_of(splits: Sequence[Split]) -> int:
    return sum(part.length for split in splits for part in split.parts)


def _is_quick(splits: Sequence[Split]) -> bool:
    """Tell whether splits are small, and in local files: tasks beside each other wait for a store at the same time."""
    locations = (location for split in splits for location in (split.stem, *(part.path for part in split.parts)))
    return _bytes_of(splits) <= MOST_BYTES_IN_DRIVER and all(map(is_local, locations))


def _lost(results: Sequence[SplitResult], rows: int) -> str | None:
    """Return why a group's results are not all of its rows."""
    reason = next((result.reason for result in results if result.reason), None)
    if reason is None and sum(part.rows for result in results for part in result.parts) != rows:
        reason = "its files have not the rows that the metadata says"
    return reason
