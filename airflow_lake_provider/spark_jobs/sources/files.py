"""Files of rows as a source: list them, leave out those that were consumed, and read the others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, Self

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.sources import ChangeEvents, Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.text_options import by_lower_name
from airflow_lake_provider.spark_jobs.sources.base import BatchSource, Listing, SourceLocation
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files, location_of, refuse_table_folders
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refusing_unreadable

_DIGITS = 8


@dataclass(frozen=True, kw_only=True)
class FilesListing(Listing):
    """Every file of a source, sorted by path."""

    files: tuple[InputFile, ...] = ()

    @property
    def identities(self) -> tuple[str, ...]:
        """Path, size and version of each file."""
        return tuple(file.identity for file in self.files)

    def beyond(self, position: SourcePosition) -> Self:
        """Return the files that a position has not consumed."""
        return replace(self, files=position.files.unconsumed(self.files))

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:
        """Return the position once all of these files are consumed."""
        return position.moved(position.files.next(self.files, self.at, max_age), self.shape)

    def possibly_consumed_by(self, position: SourcePosition) -> int:
        """Return how many files a position has consumed, or may have."""
        if self.is_lost_in(position):
            return len(self.files)
        return self.consumed_by(position) + len(self.uncertain(position))

    def is_covered_by(self, position: SourcePosition) -> bool:
        """Return whether a position has its list of files."""
        return not self.is_lost_in(position)

    def is_lost_in(self, position: SourcePosition) -> bool:
        """Return whether a position has lost its list of files."""
        return position.files.is_lost

    def changed_since(self, position: SourcePosition) -> str:
        """Return how many files have changed since a position consumed them."""
        corrected = position.files.corrected(self.files)
        if not corrected:
            return ""
        return f"{len(corrected)} files have changed since their rows were added, the first is {corrected[0].path}"

    def without_changed(self, position: SourcePosition) -> Self:
        """Return the listing without these files."""
        left_out = set(position.files.corrected(self.files))
        return replace(self, files=tuple(file for file in self.files if file not in left_out))

    def uncertain(self, position: SourcePosition) -> tuple[InputFile, ...]:
        """Return the files that a position may have forgotten."""
        return position.files.uncertain(self.files)

    def applied(self, listed: Self, start: SourcePosition) -> str:
        """Return the counts of new, corrected and already consumed files as a sentence."""
        corrected, consumed = len(start.files.corrected(listed.files)), len(listed.files) - len(self.files)
        return (
            f"applied {len(self.files)} of {len(listed.files)} files: {len(self.files) - corrected} new, "
            f"{corrected} corrected since they were applied, {consumed} known by position"
        )


class FileBatchSource(BatchSource):
    """A source of files, whatever is in them."""

    source: Files | ChangeEvents

    def location(self) -> SourceLocation:
        """Return the address that the path leads to."""
        return location_of(self.spark, self.source.path)

    @property
    def shape(self) -> Mapping[str, str]:
        """Format, options and schema, however they are spaced; needs a running session.

        :raises BadInputError: the schema cannot be parsed.
        """
        options = by_lower_name(self.source.options)
        return digests(
            format=self.source.format,
            options=json.dumps(options, sort_keys=True) if options else None,
            schema=parse_ddl(self.source.schema).json() if self.source.schema else None,
        )

    def list(self) -> FilesListing:
        """List the files of the path.

        :raises BadInputError: a path without a pattern that does not exist, or files of a lake table.
        """
        # Its moment is before that of the files.
        listing = FilesListing(source_name=self.name, shape=self.shape)
        files = list_input_files(self.spark, self.source.path)
        refuse_table_folders(self.spark, self.source.format, files)
        return replace(listing, files=files)

    def refusing_unreadable(self, listing: Listing) -> AbstractContextManager[None]:
        """Name the file in an error over one."""
        return refusing_unreadable(self.spark, listing.files, self.source.format, self.source.options or {})


class FilesSource(FileBatchSource, PlainSource):
    """Rows of files."""

    reads_alike: ClassVar[bool] = True
    source: Files

    @property
    def shape(self) -> Mapping[str, str]:
        """Format, options, schema, and the folders that are columns."""
        folders = sorted(name.lower() for name in self.source.partition_columns)
        return {**super().shape, **digests(partition_columns=json.dumps(folders) if folders else None)}

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Read them as they are, with the folders that are columns."""
        return self._read(listing, types, keeps_rows=True)

    def raw_once(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Read them without a cache, for which Spark would plan all columns once more."""
        return self._read(listing, types, keeps_rows=False)

    def parquet_files(self, listing: Listing) -> tuple[InputFile, ...]:
        """Return them where neither options, a schema nor folders say what their rows are."""
        source = self.source
        is_plain = source.format == "parquet" and not (source.options or source.schema or source.partition_columns)
        return listing.files if is_plain else ()

    def _read(self, listing: Listing, types: StructType | None, *, keeps_rows: bool) -> RawBatch:
        return read_files(
            self.spark,
            self.source,
            listing.files,
            types,
            keeps_absent=self.keeps_absent,
            keeps_lines=self.spec.dead_letter is not None,
            keeps_rows=keeps_rows,
        )

    def without_rows(self, listing: Listing) -> RawBatch:
        """Return the columns of the files, or of their schema, and no row.

        :raises BadInputError: there is neither.
        """
        if listing.files:
            return super().without_rows(listing)
        if self.source.schema is None:
            raise BadInputError(
                f"{self.source.path} has no files, so that nothing tells the columns of this input of the query; give "
                "Files(..., schema='id BIGINT, ...')"
            )
        return RawBatch(rows=self.spark.createDataFrame([], parse_ddl(self.source.schema)))


def digests(**parts: str | None) -> dict[str, str]:
    """Return parts of a source that shape its rows with a digest, but for those that it does not have."""
    return {name: digest(text) for name, text in parts.items() if text}


def digest(text: str) -> str:
    """Return the digest of a text, as positions keep it."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
