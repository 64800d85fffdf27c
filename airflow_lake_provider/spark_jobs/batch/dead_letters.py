"""Dead letters: records of a batch that are put aside."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from airflow_lake_provider.spark_jobs.batch.change_batch import release_frames

# A condition, and SQL of what is wrong with a record in words, and of its class.
Fault = tuple[str, str, str]
LETTER_ID, REPLAYED_AT = "letter_id", "replayed_at"


@dataclass(frozen=True, kw_only=True)
class DeadLetters:
    """Records of a batch that are put aside.

    :param target: table of the batch.
    :param rows: of the table of dead letters, one for each; an id is the same in each try.
    :param judged: all records; cached where they are parsed.
    """

    target: str
    count: int
    rows: DataFrame
    judged: DataFrame

    def release(self) -> None:
        """Give the records back, once the others are written."""
        release_frames(self.judged)
