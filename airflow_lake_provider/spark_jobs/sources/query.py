"""A query over the rows of other sources."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.load import LoadSpec
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
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.query import named_views, sources_of

# The view of a single input, which has no name.
_SOURCE = "source"


class QuerySource(InputsSource):
    """The result of a query."""

    source: Query

    @property
    def made_by(self) -> Mapping[str, str]:
        """The query, without regard to its spaces."""
        return digests(query=" ".join(self.source.sql.split()))

    def made(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Run the query over the rows of the inputs."""
        if isinstance(listing, InputsListing):
            batches: Mapping[str, RawBatch] = read_inputs(self.inputs, listing)
        else:
            batches = {_SOURCE: self.inputs[""].raw(listing, types)}
        return run_query(self.spark, self.spec, self.source.sql, self.kept(batches))


def run_query(spark: SparkSession, spec: LoadSpec, query: str, batches: Mapping[str, RawBatch]) -> RawBatch:
    """Return the result of a query over views.

    :param spec: of the load that it is for.
    :param batches: rows by the name of their view.
    :raises BadInputError: it cannot be resolved, or records below it cannot be read.
    """
    with named_views(spark, readable_rows(batches)):
        try:
            rows = spark.sql(query)
            refuse_unfit_columns(rows.columns, "the result of the query")
            views, others = sources_of(rows)
        except AnalysisException as error:
            views_text = f"the view{'s' if len(batches) > 1 else ''} {', '.join(batches)}"
            raise BadInputError(f"the query over {views_text} cannot be resolved: {message_of(error)}") from error
    # A query of nothing but constants may be anything, too.
    reads_more = bool(others) or not views or not {view.lower() for view in views} <= set(map(str.lower, batches))
    return RawBatch(rows=rows, reads_more=reads_more, has_change_type=tells_deletes(rows, batches, spec))
