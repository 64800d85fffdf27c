"""Rows of CSV and JSON beside the lines that they are made of, so that a bad record can be kept as it is written.

Spark's readers of files tell no row its line. So the lines are read as text, and parsed by the functions that have the
same parsers.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.reports.failure_causes import CHANGED_MEANWHILE
from airflow_lake_provider.contracts.text_options import by_lower_name
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, RECORD, UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, with_arrival
from airflow_lake_provider.spark_jobs.sources.faulty_lines import (
    CHANGED_VALUE,
    NO_VALUES,
    begins_with,
    fault_of_csv_line,
    fault_of_line,
    parsed_line,
    repeated,
    text_lines,
)
from airflow_lake_provider.spark_jobs.sources.raw_batch import IN_COLUMN
from airflow_lake_provider.spark_jobs.sql.identifiers import columns_text, matches, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.older_pyspark import is_utf8

NO_UTF8 = "bytes that are no UTF-8"
ARRAY_OF_RECORDS = "an array, where a line is one record"
NO_OBJECT = "no JSON object"
OTHER_COUNT = "another number of values than there are columns, or a value in another format"
_SHOWN = 3
_SPLITS = "spark.sql.files.minPartitionNum"
_MOVED = f"{CHANGED_MEANWHILE}the first lines of the files are in other places than before"
_FAULT, _PARSED = "_lake_line_fault", "_lake_parsed"
# Of JSON, and of lines that Spark's reader of CSV takes for empty ones.
_BLANK = {"json": r"^[ \t\r\n]*+$", "csv": r"^[\x00-\x20]*+$"}


@dataclass(frozen=True, kw_only=True)
class LineRecords:
    """Lines of files, and how each becomes a record.

    :param options: of Spark's reader of files, with our defaults.
    :param plain: columns as they are read.
    """

    spark: SparkSession
    source: Files
    files: tuple[InputFile, ...]
    paths: Sequence[str]
    options: Mapping[str, str]
    plain: StructType

    def scan(self) -> Scan:
        """Return the records: the columns, ``_lake_record``, and ``_lake_unparsable`` with what is wrong with one."""
        kind = str(self.source.format)
        lines, columns = parsed_lines(self._lines, kind, self.options, self.plain)
        readable = sf.when(is_utf8("value"), sf.col("value"))
        # No text could hold the other bytes.
        record = sf.coalesce(readable, sf.concat(sf.lit("hex:"), sf.hex("value"))).alias(RECORD)
        is_control = f"coalesce({UNPARSABLE} = {text_literal(NO_VALUES)}, false)"
        return Scan(
            rows=lines, columns=[*columns, record], where=f"{is_control} OR NOT {matches(RECORD, _BLANK[kind])}"
        )

    def without_headers(self, arrived: DataFrame) -> DataFrame:
        """Return the records without the line of each file that names the columns.

        :param arrived: the records of :meth:`scan` with their places.
        :raises BadInputError: a file has another header.
        """
        if not self._has_headers:
            return arrived
        headers = {place["header"]: place["file"] for place in reversed(self._places) if place["header"] is not None}
        if len({self._names(header) for header in headers}) > 1:
            shown = "; ".join(f"{header!r} in {self.files[file].path}" for header, file in [*headers.items()][:_SHOWN])
            raise BadInputError(
                f"the CSV files of {self.source.path!r} do not all have the same header: {shown}. Give the files of "
                "each header a source of their own"
            )
        if not headers:
            return arrived
        self._refuse_twins(next(iter(headers)))
        rows = ", ".join(str(place["header_row"]) for place in self._places if place["header"] is not None)
        is_header = f"{RECORD} IN ({', '.join(map(text_literal, headers))})"
        is_first = f"CASE WHEN {is_header} THEN true ELSE raise_error('{_MOVED}') END"
        return arrived.filter(f"NOT CASE WHEN {ARRIVAL}.row IN ({rows}) THEN {is_first} ELSE false END")

    def _refuse_twins(self, header: str) -> None:
        """Refuse names that Spark would number, as its reader of files does."""
        names = self._names(header)
        if len(names) == len(self.plain) and not all(names):
            raise BadInputError(f"the CSV header {header!r} of {self.source.path!r} has a column without a name")
        if twice := repeated(names):
            raise BadInputError(f"the CSV header {header!r} of {self.source.path!r} has columns twice: {twice}")

    def first_rows(self) -> dict[int, int]:
        """Return the number of the first line of each file, from which those of its first split are counted."""
        return {place["file"]: place["first"] for place in self._places}

    @property
    def _has_headers(self) -> bool:
        header = by_lower_name(self.options).get("header", "")
        return self.source.format == "csv" and header.lower() == "true"

    @cached_property
    def _places(self) -> list[Row]:
        """The number of the first line of each file; with headers, that of the first with text, and the text."""
        row, columns = f"{ARRIVAL}.row", [sf.min(f"{ARRIVAL}.row").alias("first")]
        if self._has_headers:
            has_text = f"NOT {matches('value', _BLANK['csv'])}"
            columns.append(sf.expr(f"min({row}) FILTER (WHERE {has_text})").alias("header_row"))
            columns.append(sf.expr(f"min_by(value, {row}) FILTER (WHERE {has_text})").alias("header"))
        # Without headers no text is needed: lines are counted alone.
        lines = with_arrival(self.spark, self.files, Scan(rows=self._lines, columns=["value"]))
        of_first = lines.filter(f"{ARRIVAL}.block = 0").groupBy(sf.expr(f"{ARRIVAL}.file").alias("file"))
        return of_first.agg(*columns).orderBy("file").collect()

    def _names(self, header: str) -> tuple[str, ...]:
        """Return the names of a header in lower case, as Spark compares them; of an odd separator the whole of it."""
        lower = by_lower_name(self.options)
        separator = lower.get("sep", lower.get("delimiter", ",")).replace("\\t", "\t")
        if len(separator) != 1:
            return (header.strip().lower(),)
        read = csv.reader([header.lower()], delimiter=separator, quotechar=lower.get("quote", '"'))
        return tuple(name.strip() for name in next(read))

    @cached_property
    def _lines(self) -> DataFrame:
        """The lines, in splits that are the same in each job: their number follows that of the executors' cores."""
        if self.spark.conf.get(_SPLITS, None) is None:
            self.spark.conf.set(_SPLITS, str(self.spark.sparkContext.defaultParallelism))
        return text_lines(self.spark, self.paths, self.options)


def parsed_lines(
    lines: DataFrame, kind: str, options: Mapping[str, str], plain: StructType
) -> tuple[DataFrame, list[Column]]:
    """Return lines with how each was parsed, and what is made of them: the columns, and what is wrong with one.

    :param lines: the column ``value``, and others.
    :param kind: ``csv`` or ``json``.
    """
    flagged = columns_text(StructType([*plain, StructField(UNPARSABLE, StringType())]))
    parsed = parsed_line(f"from_{kind}", f"CASE WHEN {_FAULT} IS NULL THEN value END", flagged, options)
    # In two steps, so that each is made once.
    judged = lines.select("*", _fault_of_line(kind, options).alias(_FAULT)).selectExpr("*", f"{parsed} AS {_PARSED}")
    columns = [sf.expr(f"{_PARSED}.{quoted_name(name)} AS {quoted_name(name)}") for name in plain.names]
    of_json = fault_of_object("value", _PARSED, options, plain) if kind == "json" else ""
    of_parsed = of_json or text_literal(OTHER_COUNT)
    sound = fault_of_line("value", options) if kind == "json" else "NULL"
    fault = f"CASE WHEN {_PARSED}.{UNPARSABLE} IS NOT NULL THEN {of_parsed} ELSE {sound} END"
    return judged, [*columns, sf.expr(f"coalesce({_FAULT}, {fault})").alias(UNPARSABLE)]


def _fault_of_line(kind: str, options: Mapping[str, str]) -> Column:
    """Return what is wrong with a line that is not parsed."""
    fault = f"CASE WHEN {begins_with('value', '[')} THEN {text_literal(ARRAY_OF_RECORDS)} END"
    if kind == "csv":
        lower = by_lower_name(options)
        fault = fault_of_csv_line("value", lower, of_every_quote=True)
    return sf.when(~is_utf8("value"), sf.lit(NO_UTF8)).otherwise(sf.expr(fault))


def fault_of_object(line: str, parsed: str, options: Mapping[str, str], plain: StructType) -> str:
    """Return SQL of what is wrong with a line of JSON that is not what its columns are.

    :param parsed: column of what was made of the line.
    """
    if not plain.names:
        return text_literal(NO_OBJECT)
    texts = columns_text(StructType([StructField(name, StringType()) for name in plain.names]))
    as_texts = parsed_line("from_json", line, texts, options)
    unfit = ", ".join(
        f"CASE WHEN {parsed}.{name} IS NULL AND {as_texts}.{name} IS NOT NULL THEN {text_literal(shown)} END"
        for name, shown in ((quoted_name(each), each) for each in plain.names)
    )
    named = f"concat({text_literal(f'{CHANGED_VALUE}{IN_COLUMN}')}, nullif(concat_ws(', ', {unfit}), ''))"
    return f"coalesce({named}, {text_literal(NO_OBJECT)})"
