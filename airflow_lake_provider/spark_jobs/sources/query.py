"""A query over the rows of another source."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.sources import Query
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.base import Listing, SourceLocation, open_source
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns
from airflow_lake_provider.spark_jobs.sources.files import digests
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.query import sources_of

# The view that a query has its rows from.
_SOURCE = "source"


class QuerySource(PlainSource):
    """The result of a query."""

    source: Query

    @cached_property
    def below(self) -> PlainSource:
        """The source that it reads."""
        opened = open_source(self.spark, self.spec, self.source.below)
        assert isinstance(opened, PlainSource), "a source with plain rows has a reader of plain rows"
        return opened

    def location(self) -> SourceLocation:
        """Return where the source below is."""
        return self.below.location()

    @property
    def shape(self) -> Mapping[str, str]:
        """Shape of the rows below, and the query without regard to its spaces."""
        return {**self.below.shape, **digests(query=" ".join(self.source.sql.split()))}

    def list(self) -> Listing:
        """Look at the source below."""
        return replace(self.below.list(), shape=self.shape)

    def refusing_unreadable(self, listing: Listing) -> AbstractContextManager[None]:
        """Name what cannot be read, as the source below does."""
        return self.below.refusing_unreadable(listing)

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Run the query over the rows below."""
        return run_query(self.spark, self.source.sql, self.below.raw(listing, types))


def run_query(spark: SparkSession, query: str, batch: RawBatch) -> RawBatch:
    """Return the result of a query over the view ``source``.

    :raises BadInputError: it cannot be resolved, or records below it cannot be read.
    """
    if batch.may_be_unparsable:
        batch.refuse_unparsable(batch.rows.filter(sf.col(UNPARSABLE).isNotNull()).count())
    hidden = [name for name in batch.rows.columns if name.startswith("_lake_")]
    in_order = batch.rows.drop(*hidden)
    (in_order if batch.in_any_order is None else batch.in_any_order).createOrReplaceTempView(_SOURCE)
    try:
        rows = spark.sql(query)
        refuse_unfit_columns(rows.columns, "the result of the query")
        return RawBatch(rows=rows, reads_more=sources_of(rows) != ({_SOURCE}, set()))
    except AnalysisException as error:
        raise BadInputError(f"the query over the view source cannot be resolved: {message_of(error)}") from error
    finally:
        spark.catalog.dropTempView(_SOURCE)
