"""A third envelope, which only tests have: its log orders changes by three numbers, of which two have 80 bits.

Lines are those of ``plain_operations``, with the place as SQL Server has it: LSN of the commit, LSN of the change, and
which of the changes with that LSN it is, such as ``"90000027:00000bb8:0000/90000027:000008ca:0000/2"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any, ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.log_positions import TuplePosition
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope
from airflow_lake_provider.spark_jobs.sources.cdc.events import position_of
from airflow_lake_provider.spark_jobs.sources.cdc.source import ChangeEventsSource
from tests.spark.sources.plain_operations import PlainOperations, PlainOperationsEnvelope

_NUMBER = "DECIMAL(38, 0)"
_LSN = "([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4})"
_FILE = 0x90000027


@dataclass(frozen=True)
class TransactionOperations(PlainOperations):
    """Operations on one table of a log of transactions."""

    reader: ClassVar[str] = "tests.spark.sources.transaction_operations:TransactionOperationsSource"


# [START log]
@dataclass(frozen=True)
class TransactionLogPosition(TuplePosition):
    """Changes in the order of their commits, as SQL Server's change tables have them."""

    kind: ClassVar[str] = "transaction-log"
    code: ClassVar[int] = 203
    number_type: ClassVar[str] = _NUMBER
    commit_lsn: int
    change_lsn: int
    serial: int


# [END log]
class TransactionOperationsEnvelope(PlainOperationsEnvelope):
    """Lines of operations with the places of a log of transactions."""

    log: ClassVar[type[TuplePosition]] = TransactionLogPosition

    def _place(self) -> dict[str, Column]:
        commit_lsn, change_lsn = _lsn(1), _lsn(4)
        serial = sf.nullif(sf.regexp_extract("position", r"/(\d+)$", 1), sf.lit("")).cast(_NUMBER)
        # A row is locked until the commit, so the change alone orders the events of one key.
        ordinal = change_lsn * sf.lit(Decimal(2**32)) + serial
        position = position_of(self.log, commit_lsn=commit_lsn, change_lsn=change_lsn, serial=serial)
        return {"position": position, "ordinal": ordinal, "ts_ms": sf.col("ts") * 1000}


class TransactionOperationsSource(ChangeEventsSource):
    """The registration."""

    envelope: ClassVar[type[Envelope]] = TransactionOperationsEnvelope


def _lsn(group: int) -> Column:
    parts = [sf.regexp_extract("position", f"^{_LSN}/{_LSN}/", group + i) for i in range(3)]
    file, block, slot = (sf.conv(sf.nullif(part, sf.lit("")), 16, 10).cast(_NUMBER) for part in parts)
    return file * sf.lit(Decimal(2**48)) + block * sf.lit(Decimal(2**16)) + slot


def in_transactions(lines: Sequence[dict[str, Any]], draw: Random) -> list[dict[str, Any]]:
    """Return the lines, in the order of their commits, at places of transactions that overlap where they may."""
    placed: list[dict[str, Any]] = []
    former_keys: set[int] = set()
    commit = 10_000
    while len(placed) < len(lines):
        of_transaction = lines[len(placed) :][: draw.randint(1, 4)]
        keys = {
            image["id"] for line in of_transaction for image in (line["data"], line.get("old", {})) if "id" in image
        }
        commit += 1_000
        # Its changes were written before those of the transaction that committed before it.
        begin = commit - (1_950 if former_keys.isdisjoint(keys) else 900)
        for number, line in enumerate(of_transaction):
            change, serial = divmod(number, 2)
            place = f"{_text(commit)}/{_text(begin + 8 * change)}/{serial + 1}"
            placed.append({**line, "position": place, "ts": 1_760_000_000 + commit})
        former_keys = keys
    return placed


def _text(block: int) -> str:
    return f"{_FILE:08x}:{block:08x}:0000"
