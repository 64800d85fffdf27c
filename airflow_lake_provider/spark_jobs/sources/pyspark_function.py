"""Rows of a function of the author's."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.session.author_function import (
    errors_in_rows_of,
    errors_of,
    frame_of,
    load_function,
)
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.named_inputs import (
    InputsListing,
    InputsSource,
    read_inputs,
    readable_rows,
    tells_deletes,
)
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.query import sources_of


@dataclass(frozen=True, kw_only=True)
class BatchListing(Listing):
    """A batch without inputs, which only its ``batch_id`` tells from others.

    :param function: that makes it.
    """

    # Each run is all there is.
    may_show_earlier = False
    function: str

    @property
    def shows_changes(self) -> bool:
        """False: nothing is known of the rows."""
        return False

    @property
    def identities(self) -> tuple[str, ...]:
        """The function."""
        return (self.function,)

    def beyond(self, position: SourcePosition) -> Self:  # noqa: ARG002  # others ask it
        """Return itself: no position knows it."""
        return self

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position, which keeps nothing of it."""
        return position

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Name the function."""
        return f"applied the rows of {self.function}"


class PySparkFunctionSource(InputsSource):
    """The rows that a function returns."""

    source: PySparkFunction

    @property
    def made_by(self) -> Mapping[str, str]:
        """The function, its code as far as it was shipped, and what it is given."""
        params = json.dumps(dict(self.source.params), sort_keys=True)
        return digests(function=self.source.function, code=self.source.function_code, params=params)

    def list(self) -> Listing:
        """Look at the inputs."""
        if self.source.over:
            return super().list()
        return BatchListing(source_name=self.name, shape=self.shape, function=self.source.function)

    def made(self, listing: Listing, types: StructType | None) -> RawBatch:  # noqa: ARG002  # others ask it
        """Call the function.

        :raises InvalidSpecError: it takes other arguments, or returns no DataFrame.
        :raises JobFailedError: it raised an error.
        """
        name = self.source.function
        function = load_function(self.spark, name, self.source.function_code)
        batches = self.kept(read_inputs(self.inputs, listing) if isinstance(listing, InputsListing) else {})
        inputs = readable_rows(batches)
        arguments: tuple[Any, ...] = (self.spark, inputs, dict(self.source.params))
        try:
            inspect.signature(function).bind(*arguments)
        except (TypeError, ValueError) as error:
            raise InvalidSpecError(f"{name} must take (spark, inputs, params): {error}") from error
        with errors_of(self.spark, name):
            result = function(*arguments)
        rows = frame_of(self.spark, name, result)
        refuse_unfit_columns(rows.columns, f"the result of {name}")
        # What a function reads that declares nothing, nobody knows.
        declared = {relation for each in inputs.values() for relation in sources_of(each)[1]}
        reads_more = not inputs or not sources_of(rows)[1] <= declared
        return RawBatch(rows=rows, reads_more=reads_more, has_change_type=tells_deletes(rows, batches, self.spec))

    @contextmanager
    def refusing_unreadable(self, listing: Any) -> Iterator[None]:
        """Name the function in an error of a UDF, and an input in one over it."""
        with errors_in_rows_of(self.source.function), super().refusing_unreadable(listing):
            yield
