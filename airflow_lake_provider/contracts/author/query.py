"""A query over one source or several, of an author's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import text
from airflow_lake_provider.contracts.author.named_inputs import MadeOfInputs, is_named, named_inputs, queryable
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, OnSourceChange, Source, source
from airflow_lake_provider.contracts.author_object import reads
from airflow_lake_provider.contracts.sql_limits import check_query_start


def _query(value: object, name: str) -> str:
    query = value if isinstance(value, str) else text(value, name)
    check_query_start(query, name)
    return query


def _below(value: object, name: str) -> Source | dict[str, Source]:
    return named_inputs(value, name) if is_named(value) else queryable(value, name)


@dataclass(frozen=True)
class Query(MadeOfInputs):
    """A query over one source or several. It is code: never interpolate user input.

    :param sql: SQL over the view ``source``, or over a view for each named input; or the path of a file with it.
    :param over: ``Files``, ``LakeTable``, ``Changes``, ``JdbcTable``, ``KafkaTopic`` or a path; or a mapping of names
        to such inputs. Their ``name`` and ``on_source_change`` are those of the query.
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
    def query(self) -> str:
        """The SQL."""
        return self.sql

    def without_policy(self) -> Self:
        """Return the query over files that are remembered as by default."""
        inputs = {name: each.without_policy() for name, each in self.inputs.items()}
        below = inputs if is_named(self.over) else inputs[""]
        return replace(self, on_source_change=OnSourceChange.CONTINUE, over=below)
