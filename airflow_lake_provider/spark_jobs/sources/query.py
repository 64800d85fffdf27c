"""A query over the rows of other sources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.formats.commits import CHANGE_TYPE
from airflow_lake_provider.spark_jobs.sources.base import Listing, SourceLocation
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.named_inputs import (
    InputsListing,
    list_inputs,
    open_inputs,
    read_inputs,
    refusing_unreadable_inputs,
)
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.query import sources_of

# The view of a single input, which has no name.
_SOURCE = "source"


class QuerySource(PlainSource):
    """The result of a query."""

    source: Query

    @cached_property
    def inputs(self) -> Mapping[str, PlainSource]:
        """The sources that it reads, by the name of their view; a single one under the empty name."""
        return open_inputs(self.spark, self.spec, self.source)

    def location(self) -> SourceLocation:
        """Return where a single input is; of several, what to know of them."""
        located = [each.location() for each in self.inputs.values()]
        warnings = tuple(warning for each in located for warning in each.warnings)
        return SourceLocation(address=located[0].address if len(located) == 1 else None, warnings=warnings[:1])

    @property
    def shape(self) -> Mapping[str, str]:
        """Shape of the rows of each input, and the query without regard to its spaces."""
        of_inputs = {
            f"{name}.{part}" if name else part: digest
            for name, each in self.inputs.items()
            for part, digest in each.shape.items()
        }
        return {**of_inputs, **digests(query=" ".join(self.source.sql.split()))}

    def list(self) -> Listing:
        """Look at the inputs."""
        single = self.inputs.get("")
        if single is not None:
            return replace(single.list(), shape=self.shape)
        return list_inputs(self.inputs, self.name, self.shape)

    def refusing_unreadable(self, listing: Any) -> AbstractContextManager[None]:
        """Name what cannot be read, as its input does."""
        single = self.inputs.get("")
        return single.refusing_unreadable(listing) if single else refusing_unreadable_inputs(self.inputs, listing)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Run the query over the rows of the inputs."""
        if isinstance(listing, InputsListing):
            return run_query(self.spark, self.source.sql, read_inputs(self.inputs, listing))
        return run_query(self.spark, self.source.sql, {_SOURCE: self.inputs[""].raw(listing, types)})

    def after_commit(self, listing: Any) -> None:
        """Tell each input what of it is consumed."""
        for name, each in self.inputs.items():
            each.after_commit(listing.wanted[name] if name else listing)


def run_query(spark: SparkSession, query: str, batches: Mapping[str, RawBatch]) -> RawBatch:
    """Return the result of a query over views.

    :param batches: rows by the name of their view.
    :raises BadInputError: it cannot be resolved, or records below it cannot be read.
    """
    for batch in batches.values():
        if batch.may_be_unparsable:
            batch.refuse_unparsable(batch.rows.filter(sf.col(UNPARSABLE).isNotNull()).count())
    for name, batch in batches.items():
        hidden = [column for column in batch.rows.columns if column.startswith("_lake_")]
        in_order = batch.rows.drop(*hidden)
        (in_order if batch.in_any_order is None else batch.in_any_order).createOrReplaceTempView(name)
    names = ", ".join(batches)
    try:
        rows = spark.sql(query)
        refuse_unfit_columns(rows.columns, "the result of the query")
        views, others = sources_of(rows)
        has_change_type = any(each.has_change_type for each in batches.values()) and CHANGE_TYPE in rows.columns
        # A query of nothing but constants may be anything, too.
        reads_more = bool(others) or not views or not {view.lower() for view in views} <= set(map(str.lower, batches))
        return RawBatch(rows=rows, reads_more=reads_more, has_change_type=has_change_type)
    except AnalysisException as error:
        views_text = f"the view {names}" if len(batches) == 1 else f"the views {names}"
        raise BadInputError(f"the query over {views_text} cannot be resolved: {message_of(error)}") from error
    finally:
        for name in batches:
            spark.catalog.dropTempView(name)
