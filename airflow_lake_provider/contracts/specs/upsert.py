"""Spec of an upsert, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, names, optional, share, text
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter, dead_letter
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, MergeEngine, merge_engine
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.capabilities import known_capabilities
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import argument
from airflow_lake_provider.contracts.specs.load import LoadSpec

# The format's own choice, and what formats declare. What each means only they know.
_AUTO, _OF_STRATEGY = "auto", "strategy-"


def strategies() -> tuple[str, ...]:
    """Return the values of ``strategy``, those that one format alone has included."""
    names = (name for name in known_capabilities() if name.startswith(_OF_STRATEGY))
    return (_AUTO, *(name.removeprefix(_OF_STRATEGY) for name in names))


def _strategy(value: object, name: str) -> str:
    names = strategies()
    strategy = next((each for each in names if each == value), None)
    if strategy is None:
        raise InvalidSpecError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}")
    return strategy


def _needs_of_strategy(strategy: str) -> tuple[str, ...]:
    return () if strategy == _AUTO else (f"{_OF_STRATEGY}{strategy}",)


def _share(value: object, name: str) -> float:
    given = share(value, name)
    if not 0 <= given <= 1:
        raise InvalidSpecError(f"{name} must be a share from 0 to 1, got {value!r}")
    return given


@dataclass(frozen=True, kw_only=True)
class UpsertSpec(LoadSpec):
    """Apply the last change of every key of a batch: the arguments of :class:`.LakeUpsertOperator`."""

    action: ClassVar[str] = "upsert"
    capabilities: ClassVar[tuple[str, ...]] = ("upsert",)
    counted_by: ClassVar[tuple[str, str]] = ("an Aggregation", "count")
    not_applied: ClassVar[frozenset[str]] = LoadSpec.not_applied | {"max_deleted_share"}
    format_arguments: ClassVar[tuple[str, ...]] = ("strategy",)
    keys: tuple[str, ...] = argument(names, ("a key",), names_columns=True)
    order_by: tuple[str, ...] = argument(names, default=())
    delete_when: str | None = argument(optional(text), default=None, templated=False, is_code=True)
    merge_engine: MergeEngine = argument(merge_engine, default=Deduplicate(), is_object=True)
    strategy: str = argument(_strategy, default=_AUTO, needs=_needs_of_strategy)
    # Author objects have a method of the argument's name.
    is_complete: bool = argument(flag, default=False, author_name="complete", needs=("kept-values",), is_later=True)
    dead_letter: DeadLetter | None = argument(dead_letter, default=None, is_object=True, is_later=True)
    max_deleted_share: float = argument(_share, default=0.2, templated=False, is_later=True)

    def complete(self) -> None:
        """Refuse what does not go together."""
        if not self.keys or len({name.lower() for name in self.keys}) != len(self.keys):
            raise InvalidSpecError(f"{self.table}: keys must be one or more different columns, got {list(self.keys)}")
        self.refuse_excluded("key columns", self.keys)
        if self.is_complete and self.delete_when is not None:
            raise InvalidSpecError(
                f"{self.table}: complete=True does not go with delete_when; leave such rows out of the batch by a Query"
            )
        super().complete()

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the format has to have."""
        kept = ("kept-values",) if self.missing_columns is MissingColumns.KEEP else ()
        return (*super().needs, *kept)

    @property
    def counts_rows(self) -> bool:
        """Tell whether input that is applied twice counts twice."""
        return self.merge_engine.counts_rows

    @property
    def missing_by_default(self) -> MissingColumns:
        """The merge engine's."""
        return self.merge_engine.missing_columns
