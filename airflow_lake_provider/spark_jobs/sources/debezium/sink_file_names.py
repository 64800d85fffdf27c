"""Partition and first offset as Kafka Connect sinks write them into the names of their files.

Confluent's S3, GCS and HDFS sinks write ``<topic>+<partition>+<first offset>.json.gz``, HDFS with ``+<last offset>``.
Aiven's write ``<topic>-<partition>-<first offset>.gz``, which a date looks like as well: there the topic has to end
with the table's name, and the numbers may have leading zeros only as the sink writes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    found = _CONFLUENT.fullmatch(name)
    if found is None:
        found = _AIVEN.fullmatch(name)
        if found is None or not found["topic"].endswith("." + table.rpartition(".")[2]):
            return None
    last = found.groupdict().get("last")
    return SinkFile(f"{found['topic']}-{int(found['partition'])}", int(found["first"]), int(last) if last else None)
