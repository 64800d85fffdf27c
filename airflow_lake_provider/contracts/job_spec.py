"""Spec of a job, as a worker sends it to a driver: the part that all actions share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, TypedDict

from airflow_lake_provider.contracts.author_object import AuthorObject
from airflow_lake_provider.contracts.json_codec import to_json, to_plain
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.table_name import TableName


class SpecFrame(TypedDict):
    """Fields that every spec has beside the arguments of its operator."""

    catalog: str
    table_format: str
    table: str
    run: RunIdentity


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """Fields that the specs of all actions share.

    :param catalog: name of the Spark catalog, which is the connection id or its ``catalog_name``.
    :param table: ``namespace.table`` that the action commits to.
    :param table_format: which module of ``spark_jobs/formats`` serves it.
    :param run: who asks.
    """

    action: ClassVar[str] = ""
    catalog: str
    table: str
    run: RunIdentity
    table_format: str = "iceberg"

    def __post_init__(self) -> None:
        TableName.parse(self.table)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, AuthorObject):
                object.__setattr__(self, field.name, value.checked())

    @property
    def name(self) -> TableName:
        """The parsed table name."""
        return TableName.parse(self.table)

    @property
    def target_branch(self) -> str:
        """Branch that the action commits to."""
        return "main"

    def digest_text(self) -> str:
        """Return what is applied as canonical JSON: without who asks and what is allowed, how to check and try."""
        aside = {"run", "on_repeat", "max_attempts", "audits", "allow_sql"}
        return to_json({"action": self.action, **{k: v for k, v in to_plain(self).items() if k not in aside}})
