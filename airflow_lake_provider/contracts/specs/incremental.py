"""Spec of an incremental run, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import (
    consumer_name,
    flag,
    names,
    optional,
    snapshot,
    sql,
    text,
)
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract, schema_contract
from airflow_lake_provider.contracts.author.table_layout import TableLayout, layout_or_none
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, attempts, derived
from airflow_lake_provider.contracts.sql_limits import check_query_start
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.table_properties import TRANSFORM_PREFIX


@dataclass(frozen=True, kw_only=True)
class IncrementalSpec(JobSpec):
    """Apply what changed in a source table to a target: the arguments of :class:`.LakeIncrementalOperator`.

    :param to_snapshot: head of the source that the worker saw; the range ends there.
    :param transform_code: text of the transform's module, when it is to be shipped; None when the cluster has it.
    """

    action: ClassVar[str] = "incremental"
    capabilities: ClassVar[tuple[str, ...]] = ("read-changes", "upsert", "merge-deduplicate")
    table: str = argument(text, "namespace.table", author_name="target", attribute="table")
    source: str = argument(text, "namespace.source")
    consumer: str = argument(consumer_name, templated=False)
    keys: tuple[str, ...] = argument(names, ("a key",), names_columns=True)
    to_snapshot: str = derived("0")
    transform: str | None = argument(optional(text), default=None, templated=False)
    transform_code: str | None = derived(None)
    query: str | None = argument(optional(sql), "SELECT * FROM changes", default=None, is_sql=True, is_code=True)
    source_keys: tuple[str, ...] = argument(names, default=(), templated=False)
    from_snapshot: str | None = argument(optional(snapshot), default=None, is_snapshot=True)
    full_refresh: bool = argument(flag, default=False)
    on_gap: str = argument(text, default="fail", templated=False)
    on_transform_change: str = argument(text, default="fail", templated=False)
    protect_source: bool = argument(flag, default=True, templated=False, needs=("consumer-tags",))
    allow_sql: bool = argument(flag, default=False, templated=False)
    create: TableLayout | None = argument(layout_or_none, default=TableLayout(), is_object=True)
    schema_contract: SchemaContract = argument(schema_contract, default=SchemaContract(), is_object=True)
    max_attempts: int = attempts()

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        TableName.parse(self.source)
        if self.source == self.table:
            raise InvalidSpecError(f"{self.table}: source and target are the same table")
        contract = self.schema_contract
        if contract.missing_columns is not None or contract.exclude_columns or contract.changes_rows:
            raise InvalidSpecError(
                f"{self.table}: missing_columns and exclude_columns of a schema_contract belong to upserts; name "
                "the columns in the query"
            )
        if not self.keys:
            raise InvalidSpecError(f"{self.table}: keys of the target are needed")
        if self.is_final("query") and (self.transform is None) == (self.query is None):
            raise InvalidSpecError(f"{self.table}: give either transform='module:function' or query, not both or none")
        check_query_start(self.query, f"{self.table}: query")
        self.refuse_code()
        if self.transform is not None and not re.fullmatch(r"[\w.]+:\w+", self.transform):
            raise InvalidSpecError(f"{self.table}: transform {self.transform!r} is not of the form module:function")
        for name, choices in {"on_gap": ("fail", "full"), "on_transform_change": ("fail", "full", "continue")}.items():
            if getattr(self, name) not in choices:
                raise InvalidSpecError(f"{self.table}: {name} must be one of {choices}, got {getattr(self, name)!r}")

    @property
    def transform_digest(self) -> str:
        """32 hexadecimal digits that change when the query or the shipped code changes.

        A function whose code is not shipped counts by its name only: what the cluster has cannot be seen from here.
        """
        text = "\x1f".join((self.query or "", self.transform or "", self.transform_code or ""))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def replaces_transform(self, properties: Mapping[str, str]) -> bool:
        """Tell whether another transform filled the target, and ``on_transform_change`` does not go on over it."""
        filled_by = properties.get(TRANSFORM_PREFIX + self.consumer)
        return filled_by not in (None, self.transform_digest) and self.on_transform_change != "continue"

    def other_transform(self) -> str:
        """Return the message for a target that another transform filled."""
        return (
            f"{self.table}: it was filled by another transform than the one given for consumer {self.consumer!r}. "
            "Rebuild it with on_transform_change='full' or full_refresh=True, or keep on with 'continue'"
        )

    @property
    def ignores_position(self) -> bool:
        """True where the author says what is read, whatever the target has consumed."""
        return self.full_refresh or self.from_snapshot is not None


def other_target(spec: IncrementalSpec, named: str) -> str:
    """Return the message for a consumer that another table is filled by.

    :param named: the other table.
    """
    return (
        f"{spec.table}: consumer {spec.consumer!r} of {spec.source} fills {named} already. Both would move the "
        "same tags, so that an expiry takes the range of the one that is behind. Give this one another consumer, "
        f"or protect_source=False; or drop {named}, where this table takes its place"
    )
