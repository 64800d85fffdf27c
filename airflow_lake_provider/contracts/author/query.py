"""A query over one source or several, of an author's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import text
from airflow_lake_provider.contracts.author.named_inputs import is_named, named_inputs
from airflow_lake_provider.contracts.author.sources import (
    DRIVERS_SIDE,
    ChangeEvents,
    Files,
    OnSourceChange,
    Source,
    TableSource,
    source,
)
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import check_query_start


def _query(value: object, name: str) -> str:
    query = value if isinstance(value, str) else text(value, name)
    check_query_start(query, name)
    return query


def _below(value: object, name: str) -> Source | dict[str, Source]:
    return named_inputs(value, name, _queryable) if is_named(value) else _queryable(value, name)


def _queryable(value: object, name: str) -> Source:
    below = source(value, name)
    if not below.is_queryable:
        raise InvalidSpecError(f"{name} must be Files, a LakeTable or Changes, got {below!r}")
    if below.name is not None or below.on_source_change is not OnSourceChange.CONTINUE:
        raise InvalidSpecError(
            f"{name}: name and on_source_change belong to the Query, not to what it reads, got name={below.name!r}, "
            f"on_source_change={OnSourceChange(below.on_source_change).value!r} below it"
        )
    return below


@dataclass(frozen=True)
class Query(Source):
    """A query over one source or several. It is code: never interpolate user input.

    :param sql: SQL over the view ``source``, or over a view for each named input; or the path of a file with it.
    :param over: ``Files``, ``LakeTable``, ``Changes``, or a path; or a mapping of names to such inputs. Their ``name``
        and ``on_source_change`` are those of the query.
    """

    kind: ClassVar[str] = "query"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.query:QuerySource"
    sql: str = field(metadata=reads(_query, "SELECT * FROM source", is_sql=True))
    over: Source | Mapping[str, Any] | str = field(metadata=reads(_below, "file.parquet"))

    def __post_init__(self) -> None:
        """Make sources of named inputs at once: each checks what is known of it, whatever is open in others."""
        if is_named(self.over):
            object.__setattr__(self, "over", _below(self.over, "Query.over"))
        super().__post_init__()

    @property
    def inputs(self) -> Mapping[str, Source]:
        """The sources that it reads, by name; a single one under the empty name."""
        return self.over if is_named(self.over) else {"": source(self.over)}

    @property
    def files(self) -> Files | ChangeEvents | None:
        """The files that it reads, and nothing else."""
        return None if is_named(self.over) else source(self.over).files

    @property
    def lake_tables(self) -> Mapping[str, TableSource]:
        """The tables that it reads."""
        return {name: table for name, each in self.inputs.items() for table in each.lake_tables.values()}

    @property
    def is_change_stream(self) -> bool:  # type: ignore[override]  # of what it reads
        """True where one of its inputs has changes of rows."""
        return any(each.is_change_stream for each in self.inputs.values())

    @property
    def query(self) -> str:
        """The SQL."""
        return self.sql

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that its inputs need."""
        return tuple(dict.fromkeys(need for each in self.inputs.values() for need in each.needs))

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse inputs that cannot be read."""
        for table in self.lake_tables.values():
            table.refuse_reading(spec)

    def refuse_spark(self, version: str) -> None:
        """Refuse inputs that a release of Spark does not read."""
        for each in self.inputs.values():
            each.refuse_spark(version)

    def without_policy(self) -> Self:
        """Return the query over files that are remembered as by default."""
        inputs = {name: each.without_policy() for name, each in self.inputs.items()}
        below = inputs if is_named(self.over) else inputs[""]
        return replace(self, on_source_change=OnSourceChange.CONTINUE, over=below)
