"""Rows of a batch as they were read, and what of them is refused once they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, TimestampType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, PLACE, UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.arrival_order import describe_first
from airflow_lake_provider.spark_jobs.sources.faulty_lines import FAULTS
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, matches, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import types_inside
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of, is_utf8

# Of a letter: the input that it is of, in which equal records are counted, and what helps to repair it.
IDENTITY, NOTE = "_lake_identity", "_lake_note"
_FILE, _FIRST = "_lake_file", "_lake_first_row"
# Before the column whose value it is.
IN_COLUMN = ", in "
_SHOWN = 5
_LATIN_1 = ("iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1")


class UndecidedTextError(Exception):
    """A text has the replacement character, and the files have it, too: nothing is wrong with the rows."""


@dataclass(frozen=True, kw_only=True)
class RawBatch:
    """Rows as they were read, nothing reduced.

    :param rows: the columns of the batch, and ``_lake_arrival`` when ``has_arrival``. When ``may_be_unparsable`` they
        are cached, but for one pass. Then ``_lake_unparsable`` is the text of a record that its schema does not fit,
        else NULL.
    :param in_any_order: the same rows without ``_lake_arrival``, whose join they spare; None where nothing is spared.
    :param reads_more: whether a query reads more than the source: the target, for all that is known.
    :param has_change_type: whether ``_change_type`` says of a row that it is a delete; it is not stored.
    :param has_bare_deletes: whether a row that deletes has its key alone, and NULL in all other columns.
    :param lines: text of the files, where the reader puts a mark in the place of bytes that are no UTF-8; else None.
    :param hint: what else may be wrong with a record that cannot be read.
    :param encoding: of text that is not UTF-8, where the reader puts the mark in the place of other bytes; else empty.
    :param origin: table of rows that have no place in files.
    :param first_rows: numbers of the first lines of files, by the index of the file; none where records are no lines.
    """

    # What may be wrong with a record, and what to do.
    remedies: ClassVar[Mapping[str, str]] = FAULTS
    rows: DataFrame
    in_any_order: DataFrame | None = None
    files: tuple[InputFile, ...] = ()
    has_arrival: bool = False
    may_be_unparsable: bool = False
    reads_more: bool = False
    has_change_type: bool = False
    has_bare_deletes: bool = False
    lines: DataFrame | None = None
    hint: str = ""
    encoding: str = ""
    origin: str = ""
    first_rows: Callable[[], dict[int, int]] = dict

    def first_place(self, rows: DataFrame, is_bad: Column) -> str:
        """Return where the first bad row is, for a message.

        :param rows: those of the batch, each with its condition.
        """
        return f"in {self.origin}" if self.origin else describe_first(rows, is_bad, self.files)

    def placed(self, rows: DataFrame) -> DataFrame:
        """Return rows of the batch with ``file`` and ``line``, ``IDENTITY``, ``PLACE`` to order by, and ``NOTE``."""
        if self.origin:
            origin, nowhere = text_literal(self.origin), "CAST(NULL AS BIGINT)"
            own = (f"{origin} AS file", f"{nowhere} AS line", f"{origin} AS {IDENTITY}", f"{nowhere} AS {PLACE}")
            return rows.selectExpr("*", *own, f"CAST(NULL AS STRING) AS {NOTE}")
        first_rows, numbers = self.first_rows(), range(len(self.files))
        files = pa.table(
            {
                _FILE: pa.array(numbers, pa.int32()),
                "file": pa.array([file.path for file in self.files], pa.string()),
                IDENTITY: pa.array([file.identity for file in self.files], pa.string()),
                _FIRST: pa.array([first_rows.get(number) for number in numbers], pa.int64()),
            }
        )
        at = rows.selectExpr("*", f"{ARRIVAL}.file AS {_FILE}", f"struct({ARRIVAL}.block, {ARRIVAL}.row) AS {PLACE}")
        joined = at.join(sf.broadcast(dataframe_of(rows.sparkSession, files)), _FILE)
        line = f"CASE WHEN {PLACE}.block = 0 THEN {PLACE}.row - {_FIRST} + 1 END AS line"
        return joined.selectExpr("*", line, f"CAST(NULL AS STRING) AS {NOTE}")

    def stored_fields(self, exclude_columns: Sequence[str]) -> list[StructField]:
        """Return the columns that are for the table: without our own, those left out, and what tells of deletes."""
        excluded = {name.lower() for name in (*exclude_columns, *((CHANGE_TYPE,) if self.has_change_type else ()))}
        fields = [each for each in self.rows.schema if not each.name.startswith("_lake_")]
        return [each for each in fields if each.name.lower() not in excluded]

    def remedies_of(self, faults: Collection[str]) -> str:
        """Return what to do about the faults of some records, to go on with in a message; empty for nothing.

        :param faults: in words, as ``_lake_unparsable`` has them.
        """
        named = (f"; {fault}: {remedy}" for fault, remedy in self.remedies.items() if any(fault in f for f in faults))
        return "".join(named)

    def refuse_unparsable(self, count: int) -> None:
        """Refuse records that cannot be read as their schema says.

        :param count: how many ``rows`` have ``_lake_unparsable``.
        :raises BadInputError: above 0; it names the file and the first such record.
        """
        if count:
            place = self.first_place(self.rows, sf.col(UNPARSABLE).isNotNull())
            fault = sf.split_part(UNPARSABLE, sf.lit(IN_COLUMN), sf.lit(1)).alias("fault")
            flagged = self.rows.filter(sf.col(UNPARSABLE).isNotNull()).select(fault, UNPARSABLE)
            rows = flagged.filter(sf.col("fault").isin(*FAULTS)).distinct().orderBy(UNPARSABLE).limit(_SHOWN).collect()
            faults = "".join(f"; {text}: {FAULTS[fault]}" for fault, text in rows)
            hints = f"{_about_numbers(self.rows)}{self.hint}{faults}"
            raise BadInputError(
                f"{count} records cannot be read as {_columns(self.rows)}: {place}. Repair the file, or give "
                f"schema and options of the source (encoding, formats) that fit it{hints}"
            )
        self.refuse_undecodable()

    def refuse_undecodable(self) -> None:
        """Refuse bytes that are no text, of which the reader has made the replacement character.

        :raises BadInputError: naming the file.
        """
        flagged = self.has_replaced_text()
        if flagged is None or (replaced := self.rows.filter(flagged)).isEmpty():
            return
        if self.encoding or self.lines is None:
            self._refuse_letters_in(replaced)
            return
        # Only where there is such a character, which the source may have itself, is the text read once more.
        row = self.lines.filter(~is_utf8("value")).groupBy("file").count().orderBy("file").head()
        if row is not None:
            raise BadInputError(
                f"{row['count']} lines of {row['file']} are no UTF-8 text; say what they are with "
                "options={'encoding': 'windows-1252'}, for example"
            )

    def has_replaced_text(self) -> Column | None:
        """Return the condition that a reader may have put a mark in the place of bytes of a text; None where it cannot.

        As one text: Spark's parser makes a flat tree of it, where that of many columns is as deep as they are many.
        """
        fields = [field for field in self.rows.schema if field.name != UNPARSABLE]
        if self.encoding:
            inside = (f.name for f in fields if any(isinstance(t, StringType) for t in types_inside(f.dataType)))
            conditions = [_has_no_letter(name, self.encoding) for name in inside]
        else:
            texts = () if self.lines is None else (f.name for f in fields if isinstance(f.dataType, StringType))
            conditions = [f"contains({quoted_name(name)}, '\ufffd')" for name in texts]
        return sf.expr(any_of(f"coalesce({condition}, false)" for condition in conditions)) if conditions else None

    def _refuse_letters_in(self, rows: DataFrame) -> None:
        row = rows.select(sf.col(f"{ARRIVAL}.file")).head()
        if row is not None:
            raise BadInputError(
                f"{self.files[row['file']].path} has bytes that are no letters in {self.encoding}; say which encoding "
                "it has, options={'encoding': 'windows-1252'} for example, or write it as UTF-8"
            )


def _has_no_letter(name: str, encoding: str) -> str:
    text = f"CAST({quoted_name(name)} AS STRING)"
    # Control characters of ISO-8859-1, which are letters of windows-1252, and which nobody writes.
    is_control = matches(text, r"[\x80-\x9f]") if encoding in _LATIN_1 else "false"
    return f"contains({text}, '\ufffd') OR {is_control}"


def _about_numbers(rows: DataFrame) -> str:
    has_times = any(isinstance(field.dataType, TimestampType) for field in rows.schema)
    return "; a number is taken for a TIMESTAMP in seconds, so declare BIGINT for any other unit" if has_times else ""


def _columns(rows: DataFrame) -> str:
    fields = (field for field in rows.schema.fields if not field.name.startswith("_lake_"))
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
