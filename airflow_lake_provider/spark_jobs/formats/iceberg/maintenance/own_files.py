"""Leave out of a compaction what its own run has written: a plan that is made again would rewrite it again.

Iceberg's planner knows nothing of runs. So its groups are cut to the other files, and the rewrite is carried out by
the methods that Iceberg's action calls with a plan of its own. They are not public.
"""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_methods import JavaItems, guava, java_array, load_class

_ACTION = "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction"
_PLAN = "org.apache.iceberg.actions.FileRewritePlan"
_COMMITS = "org.apache.iceberg.actions.RewriteDataFilesCommitManager"
_ITERABLE = "org.apache.iceberg.io.CloseableIterable"


def files_of_run(table: IcebergTable, run_key: str) -> Any | None:
    """Return the data files that snapshots of main with a run key have added, a ``DataFileSet``; None without any."""
    ours = [each.snapshot_id for each in table.ancestors() if each.summary.get(RUN_KEY) == run_key]
    if not ours:
        return None
    jvm: Any = table.spark._jvm
    files = jvm.org.apache.iceberg.util.DataFileSet.create()
    for snapshot_id in ours:
        added = table.java.snapshot(int(snapshot_id)).addedDataFiles(table.java.io())
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
    jvm: Any = spark._jvm
    if jvm.java.util.Collections.disjoint(group.rewrittenFiles(), files):
        return group
    tasks = JavaItems(spark, group.fileScanTasks())
    left = [task for task in tasks if not (files.contains(task.file()) and task.deletes().isEmpty())]
    if not left:
        return None
    kept = jvm.java.util.ArrayList()
    for task in left:
        kept.add(task)
    share = sum(task.length() for task in left) / group.inputFilesSizeInBytes()
    return jvm.org.apache.iceberg.actions.RewriteFileGroup(
        group.info(),
        kept,
        group.outputSpecId(),
        group.maxOutputFileSize(),
        group.inputSplitSize(),
        math.ceil(group.expectedOutputFiles() * share),
    )


def rewrite_without(action: Any, table: IcebergTable, files: Any, *, partial_progress: bool) -> Any:
    """Carry out a rewrite but for some files, and return its result.

    :param action: ``RewriteDataFilesSparkAction``, ready to be executed.
    :param files: of :func:`files_of_run`.
    :raises Py4JJavaError: what the action itself raises.
    """
    private = _PrivateMethods(table.spark, action)
    long, head = private.jvm.java.lang.Long.TYPE, table.java.currentSnapshot().snapshotId()
    private.call("init", [long], head)
    whole = private.value("planner").plan()
    plan = private.plan_of(groups_without(table.spark, whole, files), whole)
    execute = "doExecuteWithPartialProgress" if partial_progress else "doExecute"
    types = [load_class(table.spark, _PLAN), load_class(table.spark, _COMMITS)]
    return private.call(execute, types, plan, private.call("commitManager", [long], head)).build()


class _PrivateMethods:
    """Methods of an action that are not public."""

    def __init__(self, spark: SparkSession, action: Any) -> None:
        self.jvm: Any = spark._jvm
        self._spark, self._action = spark, action

    def call(self, name: str, types: list[Any], *arguments: Any) -> Any:
        method = load_class(self._spark, _ACTION).getDeclaredMethod(name, self._array(self.jvm.java.lang.Class, types))
        method.setAccessible(True)
        return method.invoke(self._action, self._array(self.jvm.java.lang.Object, arguments))

    def value(self, name: str) -> Any:
        field = load_class(self._spark, _ACTION).getDeclaredField(name)
        field.setAccessible(True)
        return field.get(self._action)

    def plan_of(self, groups: list[Any], whole: Any) -> Any:
        """Return a plan of some groups of another one."""
        kind = load_class(self._spark, _PLAN)
        counts = kind.getDeclaredField("groupsInPartition")
        counts.setAccessible(True)
        listed = self.jvm.java.util.ArrayList()
        for group in groups:
            listed.add(group)
        lang = self.jvm.java.lang
        types = [load_class(self._spark, _ITERABLE), lang.Integer.TYPE, load_class(self._spark, "java.util.Map")]
        made = kind.getDeclaredConstructor(self._array(lang.Class, types))
        made.setAccessible(True)
        # ``withNoopClose`` would take the list for its one item.
        closeable = self.jvm.org.apache.iceberg.io.CloseableIterable.combine(listed, whole.groups())
        given = (closeable, len(groups), counts.get(whole))
        return made.newInstance(self._array(lang.Object, given))

    def _array(self, kind: Any, items: Any) -> Any:
        return java_array(self._spark, kind, items)
