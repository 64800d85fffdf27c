"""Settings of a Spark session that our statements and the rows they name depend on, each with what it would change.

A cluster's defaults, ``spark-defaults.conf`` and an operator's ``conf`` may say otherwise: the values here win.
Settings that only say how an author's files are read (``spark.sql.parquet.binaryAsString``, rebase modes) are left
alone. A key that is read as another type is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, settings_of


@dataclass(frozen=True)
class PinnedSetting:
    """A setting and the value that a job needs.

    :param value: None where the setting must not be there at all.
    :param why: what another value changes.
    :param hostile: another value, for tests.
    """

    name: str
    value: str | None
    why: str
    hostile: str


_P = PinnedSetting
PINNED: tuple[PinnedSetting, ...] = (
    # Statements and literals.
    _P("spark.sql.parser.escapedStringLiterals", "false", "a quote, \\ or $ in a text literal is another text", "true"),
    _P("spark.sql.variable.substitute", "false", "${env:NAME} in a key or a column name becomes its value", "true"),
    _P("spark.sql.parser.quotedRegexColumnNames", "false", "a column name in backticks is a pattern", "true"),
    _P("spark.sql.ansi.doubleQuotedIdentifiers", "false", "a text in double quotes is a column", "true"),
    _P("spark.sql.ansi.enforceReservedKeywords", "false", "a nested field named like a keyword has no DDL", "true"),
    _P("spark.sql.timeTravelVersionKey", "versionAsOf", "a snapshot is asked for and the head is read", "version"),
    _P("spark.sql.timeTravelTimestampKey", "timestampAsOf", "a moment is asked for and the head is read", "moment"),
    # Names.
    _P("spark.sql.caseSensitive", "false", "a batch that spells a column otherwise adds a second one", "true"),
    # Types and casts.
    _P("spark.sql.ansi.enabled", "true", "a value that does not fit its column becomes NULL, or another", "false"),
    _P("spark.sql.storeAssignmentPolicy", "ANSI", "MERGE stores a value that does not fit, changed", "LEGACY"),
    _P("spark.sql.timestampType", "TIMESTAMP_LTZ", "TIMESTAMP in a schema is a type without a zone", "TIMESTAMP_NTZ"),
    _P("spark.sql.session.timeZone", "UTC", "times without a zone and partition transforms mean another", "Asia/Tokyo"),
    _P("spark.sql.decimalOperations.allowPrecisionLoss", "true", "sums of decimals overflow sooner", "false"),
    _P("spark.sql.charAsVarchar", "false", "CHAR in a schema keeps no padding", "true"),
    _P("spark.sql.preserveCharVarcharTypeInfo", "false", "texts of a schema with CHAR are padded", "true"),
    _P("spark.sql.function.concatBinaryAsString", "false", "joined binaries are texts", "true"),
    _P("spark.sql.function.eltOutputAsString", "false", "chosen binaries are texts", "true"),
    _P("spark.sql.execution.arrow.pyspark.enabled", "true", "missing texts of pandas become the text nan", "false"),
    _P("spark.sql.execution.arrow.pyspark.fallback.enabled", "false", "the same, where Arrow refuses a frame", "true"),
    _P("spark.sql.execution.pandas.convertToArrowArraySafely", "true", "numbers of pandas wrap around", "false"),
    _P("spark.sql.mapKeyDedupPolicy", "EXCEPTION", "of two values under one map key one is lost silently", "LAST_WIN"),
    # Which rows are read.
    _P("spark.sql.files.ignoreCorruptFiles", "false", "a file that cannot be read counts as applied", "true"),
    _P("spark.sql.files.ignoreMissingFiles", "false", "a file that was moved away counts as applied", "true"),
    _P("spark.sql.files.ignoreInvalidPartitionPaths", "false", "files of other folders count as applied", "true"),
    # Settings of Hadoop, which it has of ``spark.hadoop.*`` too; a session's own value wins.
    _P("mapreduce.input.linerecordreader.line.maxlength", "2147483647", "longer lines are left out", "9"),
    _P("orc.skip.corrupt.data", "false", "the broken part of an ORC file is left out", "true"),
    _P("hive.exec.orc.skip.corrupt.data", "false", "the broken part of an ORC file is left out", "true"),
    _P("avro.mapred.ignore.inputs.without.extension", "false", "an Avro file of another name is left out", "true"),
    _P("spark.sql.parquet.respectSummaryFiles", "false", "columns are those of summary files, or none", "true"),
    _P("spark.sql.orc.filterPushdown", "false", "ORC's reader skips rows of a source (decisions/0019)", "true"),
    _P("spark.sql.orc.aggregatePushdown", "false", "counts are taken from statistics of ORC files", "true"),
    _P("spark.sql.parquet.aggregatePushdown", "false", "counts are taken from statistics of Parquet files", "true"),
    _P("spark.sql.optimizer.metadataOnly", "false", "partitions without a row are answers", "true"),
    _P(
        "spark.sql.sources.partitionColumnTypeInference.enabled",
        "true",
        "a key in a folder's name is text in one run and a number in the next",
        "false",
    ),
    _P(
        "spark.sql.sources.useV1SourceList",
        "avro,csv,json,kafka,orc,parquet,text",
        "readers of files do not tell of which file a row is",
        "avro",
    ),
    _P("spark.sql.crossJoin.enabled", "true", "joins of ours on conditions other than equality are refused", "false"),
    _P("spark.sql.groupByOrdinal", "true", "GROUP BY 1 in a query groups by the number", "false"),
    _P("spark.sql.orderByOrdinal", "true", "ORDER BY 1 in a query orders by the number", "false"),
    _P(
        "spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled",
        "false",
        "a subquery of a query counts wrongly",
        "true",
    ),
    _P(
        "spark.sql.optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled",
        "false",
        "EXISTS and IN of a query count wrongly",
        "true",
    ),
    _P("spark.sql.analyzer.singlePassResolver.enabled", "false", "an unfinished analyzer resolves names", "true"),
    # Iceberg.
    _P("spark.sql.iceberg.merge-schema", "false", "a write may add columns to the table", "true"),
    _P("spark.sql.iceberg.check-nullability", "true", "NULL is written into a required column", "false"),
    _P("spark.sql.iceberg.check-ordering", "true", "columns are written in the order of the batch", "false"),
    _P("spark.sql.iceberg.identifier-fields-rely", "false", "identifier fields are taken for proven keys", "true"),
    _P("spark.wap.branch", None, "reads and writes go to another branch", "lake_elsewhere"),
    _P("spark.wap.id", None, "a write is staged and never published", "lake_elsewhere"),
)
# Each brings a mistake of an older release back. One of them only reads files that could not be read otherwise.
LEGACY = "spark.sql.legacy."
LEFT_TO_THE_AUTHOR = ("spark.sql.legacy.parquet.nanosAsLong",)


def pin_settings(spark: SparkSession) -> list[str]:
    """Give a session the values that jobs need.

    :return: a sentence for each setting that said otherwise.
    """
    sentences = []
    for setting in PINNED:
        current = _current_value(spark, setting.name)
        if setting.value is None:
            spark.conf.unset(setting.name)
        # Spark warns of a deprecated setting each time it is set, and again in each session made from this one.
        elif (_default(spark, setting.name) if current is None else current) != setting.value:
            spark.conf.set(setting.name, setting.value)
        if current is not None and current.lower() != (setting.value or "").lower():
            wanted = "is not set" if setting.value is None else f"is {setting.value}"
            sentences.append(f"{setting.name}={current} is overruled, in a job it {wanted}: otherwise {setting.why}")
    return [*sentences, *_without_legacy(spark)]


def _current_value(spark: SparkSession, name: str) -> str | None:
    value = spark.conf.get(name, None)
    if value is None and not name.startswith("spark."):
        value = hadoop_settings(spark).get(name)
    return value


def _default(spark: SparkSession, name: str) -> str | None:
    """Return what holds for a setting that nobody has set; None for one that Spark does not know."""
    try:
        return spark.conf.get(name)
    # Each version of Spark has another error for it.
    except Exception:  # noqa: BLE001
        return None


def _without_legacy(spark: SparkSession) -> list[str]:
    given = {name: spark.conf.get(name) for name in settings_of(spark) if name.startswith(LEGACY)}
    changed = []
    for name in sorted(given.keys() - set(LEFT_TO_THE_AUTHOR)):
        # What cannot be modified while Spark runs says nothing about statements.
        if not spark.conf.isModifiable(name):
            continue
        spark.conf.unset(name)
        if given[name] != spark.conf.get(name, None):
            changed.append(f"{name}={given[name]} is overruled: jobs run without what older releases did")
    return changed


def without_adaptive_execution(spark: SparkSession) -> AbstractContextManager[None]:
    """Plan the queries of the block once.

    Adaptive execution plans again after each stage, which takes some 20 to 40 ms. It chooses joins and merges
    partitions, and a query gains nothing whose join is given and which shuffles no rows.
    """
    return _with_setting(spark, "spark.sql.adaptive.enabled", "false")


def with_shuffle_partitions(spark: SparkSession, partitions: int) -> AbstractContextManager[None]:
    """Plan the queries of the block with a number of partitions of their own.

    Where that of the session is larger, Spark joins by that one, whatever a ``repartition`` of both sides says.
    """
    return _with_setting(spark, "spark.sql.shuffle.partitions", str(partitions))


@contextmanager
def _with_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
