"""Tell from metadata alone whether whole partitions are replaced: those of a predicate, or of new files.

A predicate has to select all rows of its partitions, and every row of new files. Without one, Iceberg replaces files of
one partition spec. Rows of the same day in files by month would stay, and be there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import TimestampNTZType

from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.specs.overwrite_partitions import WHOLE_TABLE
from airflow_lake_provider.contracts.sql_limits import shown
from airflow_lake_provider.iceberg.foreign_times import NAME_MAPPING, times_are_sure
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.overwrites.partition_ranges import (
    is_true_within,
    range_of,
    ranges_of,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import scan_by_newest_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import (
    always_true,
    bounds_are_sure,
    column_ids,
    converted,
    to_expression,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    greatest_literal,
    least_literal,
    literal_without_zone,
    overflows,
    refuse_capitals,
    text_after,
    truncate_width,
)
from airflow_lake_provider.spark_jobs.jvm.java_collections import (
    JavaItems,
    as_number_list,
    guava,
    list_of_texts,
    texts_of,
)
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from airflow_lake_provider.spark_jobs.sql.parsed_tree import kinds_in, parse_expression

_ALLOW_ROWS = "or let allow_rows=True delete single rows"
_NO_TIMES = f". Of timestamps it cannot be told: with {NAME_MAPPING} the table may have files with milliseconds"
# To Iceberg NULL differs from every value, and comes before it; to SQL neither is known.
_DIFFERS = frozenset(("NOT_EQ", "NOT_IN", "NOT_STARTS_WITH"))
_STARTS = frozenset(("STARTS_WITH", "NOT_STARTS_WITH"))
_TRUE_OF_NULL = _DIFFERS | _STARTS | {"LT", "LT_EQ"}
_SAME_OR_BOTH_NULL = "org.apache.spark.sql.catalyst.expressions.EqualNullSafe"


def partition_filter(table: IcebergTable, where: str, *, allow_rows: bool) -> Any | None:
    """Return the ``org.apache.iceberg.expressions.Expression`` of a predicate, true where SQL's is and nowhere else.

    :return: None where rows alone can tell, and ``allow_rows`` lets them.
    :raises InvalidSpecError: it is more than comparisons with constants, selects nothing, or cannot be told of files.
    """
    if where.strip().lower() == WHOLE_TABLE:
        return always_true(table)
    expression = to_expression(table, where)
    refuse_capitals(table, where)
    rewritten = table.iceberg.expressions.Expressions.rewriteNot(expression)
    operation = str(rewritten.op())
    if operation == "FALSE":
        raise InvalidSpecError(f"{table.name}: where={shown(where)} is true for no row")
    exact = None
    # What Spark has simplified to true proves nothing of a file; it takes NULL for a value with <=> alone.
    if operation != "TRUE" and bounds_are_sure(table, where, with_wrapped=not allow_rows):
        refuses = _SAME_OR_BOTH_NULL in kinds_in(table.spark, parse_expression(table.spark, where))
        exact = _never_of_null(table, rewritten, refuses=refuses)
    if exact is None and not allow_rows:
        raise InvalidSpecError(
            f"{table.name}: where={shown(where)} cannot be told of whole partitions. Compare columns of whole numbers, "
            f"decimals, dates, timestamps or texts that it is partitioned by, without NOT of <=>, {_ALLOW_ROWS}"
            f"{'' if times_are_sure(table.properties()) else _NO_TIMES}"
        )
    return exact


def _never_of_null(table: IcebergTable, expression: Any, *, refuses: bool) -> Any | None:
    """Return an expression, without NOT, that is false for NULL where SQL's is unknown.

    :param refuses: return None where a value has to differ from another.
    """
    expressions, operation = table.iceberg.expressions.Expressions, str(expression.op())
    both = {"AND": getattr(expressions, "and"), "OR": getattr(expressions, "or")}.get(operation)
    if both is not None:
        parts = [_never_of_null(table, part, refuses=refuses) for part in (expression.left(), expression.right())]
        return None if None in parts else both(*parts)
    if operation not in _TRUE_OF_NULL:
        return expression
    if refuses and operation in _DIFFERS:
        return None
    name = expression.ref().name()
    expression = _by_bounds(table, expression, operation) if operation in _STARTS else expression
    return getattr(expressions, "and")(expressions.notNull(name), expression)


def _by_bounds(table: IcebergTable, expression: Any, operation: str) -> Any:
    """Return a comparison of the beginning of a text as comparisons of the text, where Iceberg may ask NULL for it.

    Its evaluator of partitions, ``ResidualEvaluator`` of 1.12, then ends with a NullPointerException. It asks no
    partition that is cut to the length of the beginning, or shorter: that is compared by ``=``.
    """
    expressions, name = table.iceberg.expressions.Expressions, str(expression.ref().name())
    start = str(expression.literal().value())
    fields = table.facts.shape.partition_fields(of_all_specs=True)
    transforms = [field.transform for field in fields if field.source.lower() == name.lower()]
    if "identity" not in transforms and all((truncate_width(each) or 0) <= len(start) for each in transforms):
        return expression
    first, second, join = expressions.greaterThanOrEqual, expressions.lessThan, "and"
    if operation == "NOT_STARTS_WITH":
        first, second, join = expressions.lessThan, expressions.greaterThanOrEqual, "or"
    bounds, after = first(name, start), text_after(start)
    return bounds if after is None else getattr(expressions, join)(bounds, second(name, after))


@dataclass(frozen=True, kw_only=True)
class SelectedFiles:
    """Data files of a snapshot that may have rows which a predicate selects.

    :param expression: ``org.apache.iceberg.expressions.Expression`` of the predicate.
    :param whole: Java list of the ``org.apache.iceberg.FileScanTask`` of those whose partition it selects.
    :param split: likewise, of the others.
    """

    snapshot: str
    expression: Any
    whole: Any
    split: Any

    def all(self, table: IcebergTable) -> Any:
        """Return both as a Java list."""
        collect = guava(table.spark).collect
        return collect.Lists.newArrayList(collect.Iterables.concat(self.whole, self.split))

    def refuse_split(self, table: IcebergTable, where: str) -> None:
        """Refuse a predicate that selects some rows of a partition, as far as its files can tell.

        :raises InvalidSpecError: naming the first partition, and what to do.
        """
        _refuse_wrapped(table, self.snapshot, self.expression, where)
        if self.split.isEmpty():
            return
        task = self.split.get(0)
        partition = str(task.spec().partitionToPath(task.file().partition())) or "the only one"
        raise InvalidSpecError(
            f"{table.name}: where={shown(where)} does not select all rows of partition {partition}, nor of "
            f"{self.split.size() - 1} other data files; give the bounds of whole partitions, {_ALLOW_ROWS}"
        )


def selected_files(table: IcebergTable, base: str, expression: Any | None) -> SelectedFiles:
    """Return the files of a snapshot that an expression selects; all of them for None."""
    expression = always_true(table) if expression is None else expression
    names = [
        str(table.java.schema().findColumnName(each)) for each in JavaItems(table.spark, column_ids(table, expression))
    ]
    scan = scan_by_newest_schema(table, int(base)).filter(expression)
    scan = scan.includeColumnStats(list_of_texts(table.spark, names)) if names else scan
    with closing(scan.planFiles()) as planned:
        tasks = guava(table.spark).collect.Lists.newArrayList(planned)
    collect, predicates = guava(table.spark).collect, guava(table.spark).base.Predicates
    is_whole = java_functions(table.spark).is_partition_of_task_within
    whole = collect.Lists.newArrayList(collect.Iterables.filter(tasks, is_whole))
    whole.addAll(_within_ranges(table, tasks, expression))
    split = collect.Iterables.filter(tasks, getattr(predicates, "not")(getattr(predicates, "in")(whole)))
    return SelectedFiles(snapshot=base, expression=expression, whole=whole, split=collect.Lists.newArrayList(split))


def _within_ranges(table: IcebergTable, tasks: Any, expression: Any) -> Any:
    """Return the tasks that the ranges of their partitions prove whole, and that their bounds do, as a Java set.

    Bounds alone would take half a day for all of it where the other half has no row yet. They tell a file whose rows
    are not in the range of its partition.
    """
    collect, predicates = guava(table.spark).collect, guava(table.spark).base.Predicates
    java = java_functions(table.spark)
    strict = table.iceberg.expressions.StrictMetricsEvaluator(table.java.schema(), expression, False)
    within = getattr(predicates, "and")(
        getattr(predicates, "not")(java.is_partition_of_task_within), java.are_bounds_of_task_within(strict)
    )
    bounded, proved = collect.Lists.newArrayList(collect.Iterables.filter(tasks, within)), collect.Sets.newHashSet()
    labels = zip(
        texts_of(table.spark, bounded, java.of_task("specId", "int")),
        texts_of(table.spark, bounded, java.of_task("partition", "org.apache.iceberg.StructLike")),
        strict=True,
    )
    is_true, answers = is_true_within(expression), dict[tuple[str, str], bool]()
    for place, label in enumerate(labels):
        task = bounded.get(place)
        if label not in answers:
            answers[label] = is_true(ranges_of(table, task.spec(), task.file().partition()))
        if answers[label]:
            proved.add(task)
    return proved


def files_outside(table: IcebergTable, files: Sequence[Any], expression: Any) -> list[Any]:
    """Return the new files of whose partitions an expression does not select all rows.

    :param files: ``org.apache.iceberg.DataFile`` objects of the table's present spec.
    """
    spec, expressions = table.java.spec(), table.iceberg.expressions
    strict = expressions.Evaluator(
        spec.partitionType(), expressions.Projections.strict(spec, False).project(expression)
    )
    is_true = is_true_within(expression)
    wrapped = _in_wrapped_partition(table, files, expression)
    return [
        file
        for file in files
        if file in wrapped or not (strict.eval(file.partition()) or is_true(ranges_of(table, spec, file.partition())))
    ]


def refuse_outside(table: IcebergTable, files: Sequence[Any], expression: Any, where: str) -> None:
    """Refuse new files with rows outside of a predicate, as far as their partitions can tell.

    :raises BadInputError: naming the first partition and the number of its rows.
    """
    outside = files_outside(table, files, expression)
    if not outside:
        return
    rows = sum(int(file.recordCount()) for file in outside)
    partition = str(table.java.spec().partitionToPath(outside[0].partition())) or "the only one"
    raise BadInputError(
        f"{table.name}: {rows:,} rows of the batch are in partitions of which where={shown(where)} does not select all "
        f"rows, the first is {partition}. Leave these rows out in a Query, give a where of all partitions of the "
        f"batch, {_ALLOW_ROWS}"
    )


def refuse_older_specs(table: IcebergTable, base: str | None, files: Sequence[Any]) -> None:
    """Refuse new files where files of an earlier partition spec may have rows of their partitions.

    Most tables have files of one spec, which their manifests tell.

    :param files: ``org.apache.iceberg.DataFile`` objects that come in place of their partitions.
    :raises UnsupportedError: naming the first of such files' partitions, and what to do.
    """
    if base is None or not files:
        return
    spec, java = table.java.spec(), java_functions(table.spark)
    manifests = table.java.snapshot(int(base)).dataManifests(table.java.io())
    if set(as_number_list(table.spark, manifests, java.spec_id_of_manifest)) <= {int(spec.specId())}:
        return
    package = guava(table.spark)
    of_present = java.is_task_of_spec(int(spec.specId()))
    scan = scan_by_newest_schema(table, int(base)).filter(_around(table, files))
    with closing(scan.planFiles()) as planned:
        older = package.collect.Lists.newArrayList(
            package.collect.Iterables.filter(planned, getattr(package.base.Predicates, "not")(of_present))
        )
    if older.isEmpty():
        return
    task = older.get(0)
    partition = str(task.spec().partitionToPath(task.file().partition())) or "none"
    raise UnsupportedError(
        f"{table.name}: {older.size()} data files are partitioned by an earlier spec and may have rows of the "
        f"partitions that are replaced, the first is in partition {partition}. Rewrite them by LakeCompactionOperator "
        "with level='full', or say by where which rows are replaced"
    )


def _around(table: IcebergTable, files: Sequence[Any]) -> Any:
    """Return an expression that is true for all rows of the files' partitions, and maybe for others."""
    predicate = " AND ".join(_ranges(table, files))
    if not predicate or not bounds_are_sure(table, predicate):
        return always_true(table)
    try:
        return converted(table, predicate)
    except SPARK_ERRORS:
        return always_true(table)


def _ranges(table: IcebergTable, files: Sequence[Any]) -> Iterator[str]:
    """Yield a predicate for each partition field whose values tell a range of its column."""
    spec = table.java.spec()
    classes = spec.javaClasses()
    columns = {field.name: field.dataType for field in table.schema()}
    for place, field in enumerate(JavaItems(table.spark, spec.fields())):
        name = str(table.java.schema().findColumnName(field.sourceId()))
        values = [file.partition().get(place, classes[place]) for file in files]
        kind = columns.get(name)
        # Of other types, such as bytes, Python has no order.
        if kind is None or not all(isinstance(value, int | str) for value in values):
            continue
        low = range_of(str(field.transform()), kind, min(values))
        high = range_of(str(field.transform()), kind, max(values))
        if low is None or high is None:
            continue
        if isinstance(kind, TimestampNTZType):
            least, greatest = literal_without_zone(int(low[0])), literal_without_zone(int(high[1]))
        else:
            least, greatest = least_literal(low[0], kind), greatest_literal(high[1], kind)
        if least is not None and greatest is not None:
            yield f"{quoted_name(name)} >= {least} AND {quoted_name(name)} <= {greatest}"


def _refuse_wrapped(table: IcebergTable, base: str, expression: Any, where: str) -> None:
    """Refuse a predicate on a column of which a snapshot has a partition that overflowed, as its manifests tell.

    ``truncate(10, -2147483648)`` is 2147483646 of an INT. A predicate on the column is projected past that partition,
    or to it by mistake. All others are told by it.

    :param expression: ``org.apache.iceberg.expressions.Expression`` of the predicate.
    :raises InvalidSpecError: naming the partition.
    """
    expressions, package, java = table.iceberg.expressions, guava(table.spark), java_functions(table.spark)
    columns = column_ids(table, expression)
    for spec in JavaItems(table.spark, table.java.specs().values()):
        for place, value in _wrapped(table, spec, columns):
            name = str(spec.fields().get(place).name())
            holds = expressions.ManifestEvaluator.forPartitionFilter(
                expressions.Expressions.equal(name, value), spec, True
            )
            manifests = table.java.snapshot(int(base)).dataManifests(table.java.io())
            of_spec = package.collect.Iterables.filter(manifests, java.is_of_spec(int(spec.specId())))
            of_spec = package.collect.Lists.newArrayList(of_spec)
            if any(holds.eval(manifest) for manifest in JavaItems(table.spark, of_spec)):
                raise InvalidSpecError(
                    f"{table.name}: where={shown(where)} compares a column whose least numbers are in partition "
                    f"{name}={value}, out of order, and cannot be told of it. Let allow_rows=True delete single rows"
                )


def _in_wrapped_partition(table: IcebergTable, files: Sequence[Any], expression: Any) -> list[Any]:
    """Return the new files that are in such a partition, of a column that an expression compares.

    :param files: ``org.apache.iceberg.DataFile`` objects of the table's present spec.
    """
    spec = table.java.spec()
    wrapped, classes = list(_wrapped(table, spec, column_ids(table, expression))), spec.javaClasses()
    return [file for file in files if any(file.partition().get(at, classes[at]) == value for at, value in wrapped)]


def _wrapped(table: IcebergTable, spec: Any, columns: Any) -> Iterator[tuple[int, int]]:
    """Yield place and value of each field of a spec that truncates one of the columns, where it overflows."""
    for place, field in enumerate(JavaItems(table.spark, spec.fields())):
        if not columns.contains(field.sourceId()):
            continue
        kind = str(table.java.schema().findType(field.sourceId()))
        for _, value in overflows(str(field.transform()), kind):
            yield place, value
