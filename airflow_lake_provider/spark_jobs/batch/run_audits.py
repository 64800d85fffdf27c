"""An author's assertions, run over a batch and over the table with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.query import named_views, sources_of


@dataclass
class BatchAudit:
    """The assertions of one batch.

    :param table: name for messages.
    :param batch: its rows to insert or update, in the table's types.
    :param runs: how often they have been run.
    """

    spark: SparkSession
    table: str
    audits: Audits
    batch: DataFrame
    runs: int = field(default=0, init=False)
    _has_passed: bool = field(default=False, init=False)

    @property
    def is_decided(self) -> bool:
        """True where their answer holds whatever else the table has: they look at the batch alone, and have passed."""
        return self.audits.local and self._has_passed

    def run(self, audited: DataFrame) -> dict[str, int]:
        """Count the rows that offend each assertion; one that passes is left out.

        :param audited: the table as it is to be.
        """
        counts = {name: int(rows.collect()[0][0]) for name, rows in self.resolve(audited).items()}
        self.runs += 1
        offending = {name: count for name, count in counts.items() if count}
        self._has_passed = not offending
        return offending

    def resolve(self, audited: DataFrame) -> dict[str, DataFrame]:
        """Return the count of offending rows of each assertion, not computed yet.

        :raises InvalidSpecError: one is no query, names what is not there, or does not read what it has to.
        """
        with named_views(self.spark, {Audits.BATCH: self.batch, Audits.AUDITED: audited}):
            return {name: self._count(name, query) for name, query in self.audits.queries.items()}

    def _count(self, name: str, query: str) -> DataFrame:
        try:
            # In parentheses only a query can stand: a statement that writes would run as soon as it is named.
            count = self.spark.sql(f"SELECT count(*) FROM (\n{query.strip().rstrip(';')}\n)")
        except AnalysisException as error:
            raise InvalidSpecError(
                f"{self.table}: audit {name!r} is no query that can be run: {message_of(error)}"
            ) from error
        self._refuse(name, query, count)
        return count

    def _refuse(self, name: str, query: str, count: DataFrame) -> None:
        views, others = sources_of(count)
        if not views & {Audits.AUDITED, Audits.BATCH}:
            raise InvalidSpecError(
                f"{self.table}: audit {name!r} reads neither the view {Audits.AUDITED}, the table as it is to be, nor "
                f"the view {Audits.BATCH}, so it cannot see the batch, got {query!r}"
            )
        beside = sorted(views - {Audits.BATCH} | others)
        if self.audits.local and beside:
            raise InvalidSpecError(
                f"{self.table}: audit {name!r} is declared local to the batch but reads {', '.join(beside)}, whose "
                f"rows others may change; leave out audits_local, or read the view {Audits.BATCH} alone"
            )
