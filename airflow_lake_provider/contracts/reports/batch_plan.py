"""Plan of a batch, as a dry run of a load reports it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.reports.schema_changes import SchemaChange


@dataclass(frozen=True, kw_only=True)
class PutAsideRecord:
    """A record that a run would put aside: its place and what is wrong with it, not what it has.

    :param file: path of its file.
    :param line: number of its line; None where nobody counted the lines.
    :param error_class: as the table of dead letters has it.
    :param reason: likewise, in words.
    """

    file: str
    line: int | None
    error_class: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Changes that a batch would make, and its records that would be put aside.

    :param schema_changes: each change that the columns of the batch ask for.
    :param put_aside: the first such records; all are counted in ``dead_letters`` of the report.
    :param refused: why a run would refuse the batch; None where it would apply it.
    :param upserts: keys that a batch which is the whole table would insert or update; None of other batches, and where
        columns would have to change first.
    :param deletes: likewise, keys that it would delete.
    """

    schema_changes: tuple[SchemaChange, ...] = ()
    put_aside: tuple[PutAsideRecord, ...] = ()
    refused: str | None = None
    upserts: int | None = None
    deletes: int | None = None
