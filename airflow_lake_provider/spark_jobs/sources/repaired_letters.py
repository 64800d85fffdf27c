"""Dead letters that somebody has repaired: listed by their texts, parsed as JSON, and marked once they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.dead_letter import RepairedLetters
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL, LETTER_ID, REPLAYED_AT, UNPARSABLE
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import MatchedCommit, RowMatch
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.faulty_lines import NO_FIELD
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.line_records import parsed_lines
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.read_text import typed_rows
from airflow_lake_provider.spark_jobs.sources.spelled_fields import json_values, other_fields
from airflow_lake_provider.spark_jobs.sources.text_schema import has_other_keys
from airflow_lake_provider.spark_jobs.sources.text_values import read_as
from airflow_lake_provider.spark_jobs.sql.identifiers import text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import nullable, types_inside
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

# Before the id, in the place of a path.
_LETTER = "letter "
_NUMBER = "_lake_file"
_LINE = "_lake_line"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNPARSABLE}
_NOTED_AT_ONCE = 1_000
# Of the table of letters: what is read here.
_READ = frozenset({LETTER_ID, REPLAYED_AT, "target", "file", "line", "put_aside_at", "repaired"})
# Nothing would be a row of NULL.
_IS_EMPTY = f"coalesce(trim({_LINE}) = '' OR size(json_object_keys({_LINE})) = 0, false)"


@dataclass(frozen=True, kw_only=True)
class LettersListing(FilesListing):
    """Letters in the places of files: a text that is repaired once more is another version of its letter.

    :param snapshot: of the table of letters, in which they are read.
    """

    snapshot: str | None = None


class RepairedLettersSource(PlainSource):
    """Rows of repaired letters."""

    source: RepairedLetters

    def list(self) -> LettersListing:
        """List the repaired letters of the target, in the order in which their records came.

        :raises MissingTableError: there is no table of letters.
        :raises BadInputError: it is another table.
        """
        table = self._table
        if lacking := sorted(_READ - {*(table.schema() or StructType()).names}):
            raise BadInputError(f"{self.source.table} is no table of dead letters, it lacks {lacking}; give its name")
        at, snapshot = datetime.now(UTC), table.state().snapshot
        if snapshot is None:
            return LettersListing(source_name=self.name, at=at)
        order = ("put_aside_at", "file", "line", LETTER_ID)
        rows = self._repaired(snapshot).orderBy(*order).select(LETTER_ID, "size", "digest").collect()
        letters = (InputFile(f"{_LETTER}{row[LETTER_ID]}", row["size"], f"sha256:{row['digest']}") for row in rows)
        return LettersListing(source_name=self.name, at=at, files=tuple(letters), snapshot=snapshot)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Parse the letters of a listing, in the types of the table.

        :raises BadInputError: the table does not exist, or a letter names a column that it lacks.
        """
        if types is None:
            raise BadInputError(f"{self.spec.table} does not exist, and repaired letters have the types of its columns")
        assert isinstance(listing, LettersListing), "it lists these itself"
        lines = self._lines(listing)
        schema = self._columns(lines, types)
        plain = StructType([StructField(field.name, read_as(field.dataType, "json", {})) for field in schema])
        parsed, columns = parsed_lines(lines, "json", _OPTIONS, plain)
        place = f"struct({_NUMBER} AS file, 0L AS block, 0L AS row)"
        rows = parsed.select(*columns, sf.expr(place).alias(ARRIVAL), sf.col("value").alias(_LINE))
        typed = typed_rows(rows, plain, schema, "json", line=_LINE)
        fault = f"CASE WHEN {_IS_EMPTY} THEN {text_literal(NO_FIELD)} ELSE {UNPARSABLE} END"
        return RawBatch(
            rows=typed.withColumn(UNPARSABLE, sf.expr(fault)).drop(_LINE).persist(),
            files=listing.files,
            has_arrival=True,
            may_be_unparsable=True,
        )

    def after_commit(self, listing: Any) -> None:
        """Note it in the letters, for people: the position of the target is what decides."""
        ids = [file.path.removeprefix(_LETTER) for file in listing.files]
        now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")

        def note(some: list[str]) -> None:
            named = ", ".join(map(text_literal, some))
            commit = MatchedCommit(
                action="dead-letters",
                run_key=self.spec.run.run_key(REPLAYED_AT, tuple(some)),
                base=self._table.changeable_state().base,
                match=RowMatch(where=f"{LETTER_ID} IN ({named})"),
                assignments={REPLAYED_AT: f"TIMESTAMP '{now}'"},
            )
            self._table.change(commit, Progress())

        for start in range(0, len(ids), _NOTED_AT_ONCE):
            some = ids[start : start + _NOTED_AT_ONCE]
            retry_conflicts(lambda _, some=some: note(some), self.spec.max_attempts, Progress())  # type: ignore[misc]  # a default binds it

    @property
    def _table(self) -> FormatTable:
        table = table_of(self.spark, self.spec, TableName.parse(self.source.table))
        if not table.exists():
            raise MissingTableError(f"{self.source.table}: the table of dead letters does not exist")
        return table

    def _repaired(self, snapshot: str | None) -> DataFrame:
        letters = self._table.rows_at(snapshot, is_head=True)
        of_target = letters.filter(f"target = {text_literal(self.spec.table)} AND repaired IS NOT NULL")
        return of_target.selectExpr("*", "octet_length(repaired) AS size", "sha2(repaired, 256) AS digest")

    def _lines(self, listing: LettersListing) -> DataFrame:
        """Return the texts of a listing with the number of the letter that each is of."""
        ids = [file.path.removeprefix(_LETTER) for file in listing.files]
        numbers = {LETTER_ID: pa.array(ids, pa.string()), _NUMBER: pa.array(range(len(ids)), pa.int32())}
        numbered = sf.broadcast(dataframe_of(self.spark, pa.table(numbers)))
        return self._repaired(listing.snapshot).join(numbered, LETTER_ID).selectExpr("repaired AS value", _NUMBER)

    def _columns(self, lines: DataFrame, types: StructType) -> StructType:
        """Return the columns of the table that some letter has; an append fails by the others, as with files."""
        rows = lines.selectExpr("explode(json_object_keys(value)) AS name").distinct().collect()
        given = {row["name"] for row in rows}
        if others := sorted(given - {*types.names}):
            raise BadInputError(
                f"repaired letters of {self.spec.table} name {others}, and its columns are {types.names}; spell each "
                "as the table does"
            )
        named = (field for field in types if field.name in given or not given)
        fields = [StructField(field.name, nullable(field.dataType)) for field in named]
        self._refuse_lost_fields(lines, fields)
        unfit = [field for field in fields if has_other_keys(field.dataType)]
        if unfit and given:
            raise BadInputError(
                f"repaired letters of {self.spec.table} name {_shown(unfit)}, and keys of JSON are texts: insert the "
                "rows of these letters by SQL, and set their repaired to NULL"
            )
        return StructType([field for field in fields if field not in unfit])

    def _refuse_lost_fields(self, lines: DataFrame, fields: Sequence[StructField]) -> None:
        """Refuse names inside of columns that the table lacks, whose values Spark's parser leaves out."""
        nested = [f for f in fields if any(isinstance(each, StructType) for each in types_inside(f.dataType))]
        if not nested:
            return
        values = json_values(row["value"] for row in lines.select("value").toLocalIterator())
        objects = (value for value in values if isinstance(value, dict))
        others = {path for value in objects for each in nested for path in other_fields(value.get(each.name), each)}
        if others:
            raise BadInputError(
                f"repaired letters of {self.spec.table} name {sorted(others)}, and its columns are {_shown(nested)}; "
                "spell each field as the table does"
            )


def _shown(fields: Sequence[StructField]) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
