"""Read the Kafka partition and offsets of a file from its name, as Confluent's and Aiven's sink connectors write it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

_ENDING = r"(\.(json|jsonl|ndjson|txt))?(\.(gz|gzip|snappy|zst|zstd|bz2|lz4))?"
_CONFLUENT = re.compile(rf"(?P<topic>[\w.-]+)\+(?P<partition>\d+)\+(?P<first>\d+)(\+(?P<last>\d+))?{_ENDING}", re.ASCII)
_AIVEN = re.compile(
    rf"(?P<topic>[\w.-]+)-(?P<partition>0|[1-9]\d{{0,2}}|\d{{10}})-(?P<first>0|[1-9]\d*|\d{{20}}){_ENDING}", re.ASCII
)


@dataclass(frozen=True)
class SinkFile:
    """Partition and offsets that a file's name tells.

    :param label: ``<topic>-<partition>``.
    :param first: offset of the first record.
    :param last: of the last one, where the name has it.
    """

    label: str
    first: int
    last: int | None = None


def sink_file(path: str, table: str) -> SinkFile | None:
    """Read a file's name; None where no sink wrote it.

    :param table: ``orders`` or ``public.orders``.
    """
    name = path.rpartition("/")[2]
    match = _CONFLUENT.fullmatch(name)
    if match is None:
        match = _AIVEN.fullmatch(name)
        if match is None or not match["topic"].endswith("." + table.rpartition(".")[2]):
            return None
    last = match.groupdict().get("last")
    return SinkFile(f"{match['topic']}-{int(match['partition'])}", int(match["first"]), int(last) if last else None)


Names = Sequence[SinkFile | None]


def partition_label(names: Names) -> Column:
    """Return ``<topic>-<partition>`` of the Kafka record, else of the name that a sink gave the file."""
    number = try_cast(sf.col("partition"), "bigint")
    of_record = sf.when(number.isNotNull(), sf.concat_ws("-", "topic", number))
    if not any(names):
        return of_record
    labels = json.dumps([name.label if name else None for name in names])
    # As one text: an array of literals is a node of the plan for each.
    return sf.coalesce(of_record, sf.get(sf.from_json(sf.lit(labels), "ARRAY<STRING>"), sf.col(f"{ARRIVAL}.file")))
