"""Groups of a rewrite that are carried out: a choice from the plan of Iceberg's action, which takes all or none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import Internal
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import class_named, java_array, jvm_of, load_class, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, list_of
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles

_ACTION = "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction"
_PLAN = "org.apache.iceberg.actions.FileRewritePlan"
_COMMITS = "org.apache.iceberg.actions.RewriteDataFilesCommitManager"
_SET = "java.util.Set"
_GROUP = "org.apache.iceberg.actions.RewriteGroupBase"
_ITERABLE = "org.apache.iceberg.io.CloseableIterable"


@dataclass(frozen=True, kw_only=True)
class RewriteStart:
    """Head at which a rewrite began, and the table that its commits go through.

    :param commits: the table as an ``org.apache.iceberg.Table`` that commits go through.
    :param snapshot: its head.
    :param sequence_number: of the head.
    :param keeps_sequence_number: new files get it, so that equality deletes of later commits apply.
    """

    commits: Any
    snapshot: int
    sequence_number: int
    keeps_sequence_number: bool


@dataclass(frozen=True, kw_only=True)
class CommittedGroups:
    """Groups of a plan that were rewritten and committed.

    :param indexes: their global indexes.
    :param failed: how many others could not be rewritten.
    :param messages: why others were rewritten and not committed, as far as it is known.
    :param is_refused: another commit was in the way of one.
    """

    indexes: tuple[int, ...] = ()
    bytes: int = 0
    failed: int = 0
    messages: tuple[str, ...] = ()
    is_refused: bool = False

    @classmethod
    def of_result(cls, spark: SparkSession, result: Any) -> CommittedGroups:
        """Read the result of Iceberg's action."""
        done = JavaItems(spark, result.rewriteResults())
        return cls(
            indexes=tuple(int(group.info().globalIndex()) for group in done),
            bytes=sum(int(group.rewrittenBytesCount()) for group in done),
            failed=len(JavaItems(spark, result.rewriteFailures())),
        )


def files_of_run(table: IcebergTable, run_key: str) -> Any | None:
    """Return the data files that snapshots of main with a run key have added, a ``DataFileSet``; None without any."""
    ours = [int(each.id) for each in table.ancestors() if each.summary.get(RUN_KEY) == run_key]
    if not ours:
        return None
    files = table.iceberg.util.DataFileSet.create()
    for snapshot_id in ours:
        added = table.changes_of(table.java.snapshot(snapshot_id)).addedDataFiles()
        guava(table.spark).collect.Iterables.addAll(files, added)
    return files


def groups_without(spark: SparkSession, plan: Any, files: Any | None) -> list[Any]:
    """Return the file groups of a plan without some files, unless a delete has come to lie on them.

    :param plan: ``org.apache.iceberg.actions.FileRewritePlan``.
    :param files: of :func:`files_of_run`.
    """
    groups = list(JavaItems(spark, guava(spark).collect.Lists.newArrayList(plan.groups())))
    if files is None:
        return groups
    cut = (_without(spark, group, files) for group in groups)
    return [group for group in cut if group is not None]


def _without(spark: SparkSession, group: Any, files: Any) -> Any | None:
    jvm = jvm_of(spark)
    if jvm.java.util.Collections.disjoint(group.rewrittenFiles(), files):
        return group
    tasks = JavaItems(spark, group.fileScanTasks())
    left = [task for task in tasks if not (files.contains(task.file()) and task.deletes().isEmpty())]
    if not left:
        return None
    share = sum(task.length() for task in left) / group.inputFilesSizeInBytes()
    return jvm.org.apache.iceberg.actions.RewriteFileGroup(
        group.info(),
        list_of(spark, left),
        group.outputSpecId(),
        group.maxOutputFileSize(),
        group.inputSplitSize(),
        math.ceil(group.expectedOutputFiles() * share),
    )


def rewrite_chosen(
    action: Any,
    table: IcebergTable,
    choose: Callable[[Any], list[Any]],
    *,
    partial_progress: bool,
    rewrite: Callable[[list[Any]], Mapping[int, Any]] | None = None,
    commit: Callable[[RewriteStart, list[Any], list[Any]], CommittedGroups] | None = None,
) -> CommittedGroups | None:
    """Carry out some groups of a rewrite; None where none is chosen.

    :param action: ``RewriteDataFilesSparkAction``, ready to be executed.
    :param choose: returns the groups of a plan, an ``org.apache.iceberg.actions.FileRewritePlan``.
    :param rewrite: returns the new files of groups by their places, each a ``DataFileSet``. The action rewrites only
        the others, and commits all.
    :param commit: commits groups and their new files where ``rewrite`` has rewritten all of them.
    """
    private = _PrivateMethods(table.spark, action)
    snapshot = table.java.currentSnapshot()
    head = snapshot.snapshotId()
    private.call("init", ["long"], head)
    whole = private.value("planner").plan()
    groups = choose(whole)
    if not groups:
        return None
    if rewrite is not None:
        written = rewrite(groups)
        if commit is not None and len(written) == len(groups):
            start = RewriteStart(
                commits=private.value("table"),
                snapshot=int(head),
                sequence_number=int(snapshot.sequenceNumber()),
                keeps_sequence_number=bool(private.value("useStartingSequenceNumber")),
            )
            return commit(start, groups, [written[place] for place in range(len(groups))])
        outputs, with_outputs = _outputs(table.spark)
        for place, files in written.items():
            outputs.put(groups[place], files)
        private.put("runner", with_outputs(private.value("runner")))
    plan = private.plan_of(groups, whole)
    execute = "doExecuteWithPartialProgress" if partial_progress else "doExecute"
    result = private.call(execute, [_PLAN, _COMMITS], plan, private.call("commitManager", ["long"], head)).build()
    return CommittedGroups.of_result(table.spark, result)


@once_a_driver
def _outputs(spark: SparkSession) -> tuple[Any, Callable[[Any], Any]]:
    """Return new files by group, and what makes a runner that takes them from there, where they are."""
    make, java = method_handles(spark), jvm_of(spark).java.util
    outputs = java.Collections.synchronizedMap(java.WeakHashMap())

    def of_outputs(name: str, kind: str, result: str) -> Any:
        method = make.method("java.util.Map", name, kind, "java.lang.Object").bindTo(outputs)
        return make.dropping(make.typed(method, result, _GROUP), 0, Internal.REWRITE_RUNNER)

    is_there, there = of_outputs("containsKey", "boolean", "boolean"), of_outputs("get", "java.lang.Object", _SET)
    rewritten = make.method(Internal.REWRITE_RUNNER, "rewrite", _SET, _GROUP)
    return outputs, make.proxies(Internal.REWRITE_RUNNER, rewrite=make.where(is_there, there, rewritten))


class _PrivateMethods:
    """Methods of an action that are not public."""

    def __init__(self, spark: SparkSession, action: Any) -> None:
        self._spark, self._action = spark, action
        self._classes = method_handles(spark).classes

    def call(self, name: str, types: list[str], *arguments: Any) -> Any:
        method = load_class(self._spark, _ACTION).getDeclaredMethod(name, self._classes(*types))
        method.setAccessible(True)
        return method.invoke(self._action, self._objects(arguments))

    def value(self, name: str) -> Any:
        return self._field(name).get(self._action)

    def put(self, name: str, value: Any) -> None:
        self._field(name).set(self._action, value)

    def _field(self, name: str) -> Any:
        field = load_class(self._spark, _ACTION).getDeclaredField(name)
        field.setAccessible(True)
        return field

    def plan_of(self, groups: list[Any], whole: Any) -> Any:
        """Return a plan of some groups of another one."""
        kind = load_class(self._spark, _PLAN)
        counts = kind.getDeclaredField("groupsInPartition")
        counts.setAccessible(True)
        made = kind.getDeclaredConstructor(self._classes(_ITERABLE, "int", "java.util.Map"))
        made.setAccessible(True)
        # ``withNoopClose`` would take the list for its one item.
        closeable = class_named(self._spark, _ITERABLE).combine(list_of(self._spark, groups), whole.groups())
        return made.newInstance(self._objects((closeable, len(groups), counts.get(whole))))

    def _objects(self, items: Sequence[Any]) -> Any:
        return java_array(self._spark, "java.lang.Object", items)
