"""Spec of an upsert, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, names, number, optional, text
from airflow_lake_provider.contracts.author.audits import Audits, audits
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes, MergeEngine, merge_engine
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract, schema_contract
from airflow_lake_provider.contracts.author.sources import ONE_YEAR, Files, OnSourceChange, Source, source
from airflow_lake_provider.contracts.author.table_layout import TableLayout, layout_or_none
from airflow_lake_provider.contracts.capabilities import known_capabilities
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec, argument
from airflow_lake_provider.contracts.sql_limits import check_code

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


class OnRepeat(str, Enum):
    """Action to take with a batch that the table says it has applied."""

    SKIP = "skip"
    APPLY = "apply"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class UpsertSpec(JobSpec):
    """Apply the last change of every key of a batch: the arguments of :class:`.LakeUpsertOperator`."""

    action: ClassVar[str] = "upsert"
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"batch_id"}
    format_arguments: ClassVar[tuple[str, ...]] = ("strategy",)
    source: Source = argument(source, Files("file.parquet"), is_object=True)
    keys: tuple[str, ...] = argument(names, ("key",))
    order_by: tuple[str, ...] = argument(names, default=())
    delete_when: str | None = argument(optional(text), default=None, templated=False)
    create: TableLayout | None = argument(layout_or_none, default=TableLayout(), is_object=True)
    schema_contract: SchemaContract = argument(schema_contract, default=SchemaContract(), is_object=True)
    branch: str | None = argument(optional(text), default=None)
    batch_id: str | None = argument(optional(text), default=None)
    on_repeat: OnRepeat = argument(choice_of(OnRepeat), default=OnRepeat.SKIP)
    merge_engine: MergeEngine = argument(merge_engine, default=Deduplicate(), is_object=True)
    strategy: str = argument(_strategy, default=_AUTO)
    audits: Audits | None = argument(audits, default=None, is_object=True)
    allow_sql: bool = argument(flag, default=False, templated=False)
    max_attempts: int = argument(number, default=5, templated=False)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if not self.keys or len({name.lower() for name in self.keys}) != len(self.keys):
            raise InvalidSpecError(f"{self.table}: keys must be one or more different columns, got {list(self.keys)}")
        if self.source.name is None and self.is_framed:
            raise InvalidSpecError(f"{self.table}: the source needs a name, under which the table keeps its position")
        self._refuse_excluded("key columns", self.keys)
        self.source.refuse_arguments(self)
        if self.branch is not None and (self.branch == "main" or self.branch.startswith("lake_")):
            raise InvalidSpecError(f"{self.table}: branch {self.branch!r} is reserved; leave it out to write to main")
        self._refuse_merge_engine()
        self._refuse_audits()
        self._refuse_texts()
        if self.max_attempts < 1:
            raise InvalidSpecError(f"{self.table}: max_attempts must be at least 1, got {self.max_attempts}")

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the format has to have."""
        engine, source = self.merge_engine, self.source
        keeps = self.missing_columns is MissingColumns.KEEP
        asked = {
            "create-table": self.create is not None,
            "soft-deletes": engine.deletes is Deletes.SOFT,
            f"{_OF_STRATEGY}{self.strategy}": self.strategy != _AUTO,
            "kept-values": keeps or not engine.is_plain or source.looks_at_rows,
            "branches": self.branch is not None,
            "audits": self.audits is not None,
        }
        named = (name for name, is_asked in asked.items() if is_asked)
        return ("upsert", f"merge-{engine.kind}", *source.needs, *named)

    @property
    def columns(self) -> Mapping[str, Iterable[str]]:
        """Names of columns, by the argument that gives them."""
        return {"keys": self.keys, "deleted_column": (self.merge_engine.deleted_column,)}

    @property
    def transforms(self) -> frozenset[str]:
        """Transforms of columns by which the table is laid out."""
        return self.create.transforms if self.create is not None else frozenset()

    @property
    def target_branch(self) -> str:
        """Branch that the action commits to."""
        return self.branch or super().target_branch

    @property
    def source_name(self) -> str:
        """Identity of the source."""
        return self.source.name or ""

    @property
    def missing_columns(self) -> MissingColumns:
        """Value of a column that the batch lacks, in the rows of the batch."""
        who_may_say = (self.schema_contract, self.source, self.merge_engine)
        return MissingColumns(next(each.missing_columns for each in who_may_say if each.missing_columns is not None))

    @property
    def exclude_columns(self) -> tuple[str, ...]:
        """Columns of the batch that are not stored."""
        return tuple(self.schema_contract.exclude_columns)

    @property
    def keep_consumed_for(self) -> timedelta | None:
        """Time for which a consumed file is remembered that is not in the source any more; None for ever."""
        if self.merge_engine.counts_rows:
            return None
        files = self.source.files
        return duration(files.max_file_age, "max_file_age") if files else ONE_YEAR

    def digest_text(self) -> str:
        """Return what is applied as canonical JSON; what may be done about a changed source is no part of it."""
        return JobSpec.digest_text(replace(self, source=self.source.without_policy()))

    def _refuse_excluded(self, what: str, names: Sequence[str]) -> None:
        lost = sorted({name.lower() for name in names} & {name.lower() for name in self.exclude_columns})
        if lost:
            raise InvalidSpecError(f"{self.table}: {what} cannot be excluded from what is written, got {lost}")

    def _refuse_texts(self) -> None:
        texts = {"Query.sql": self.source.query, "delete_when": self.delete_when}
        audits = dict(self.audits.queries) if self.audits else {}
        texts |= {f"audit {name!r}": query for name, query in audits.items()}
        check_code({f"{self.table}: {what}": text for what, text in texts.items()}, allow_sql=self.allow_sql)

    def _refuse_audits(self) -> None:
        if self.audits is None:
            return
        if self.branch is not None:
            raise InvalidSpecError(
                f"{self.table}: audits publish to main, and branch={self.branch!r} is never published; leave out one"
            )

    def _refuse_merge_engine(self) -> None:
        engine = self.merge_engine
        replays = self.source.on_source_change is OnSourceChange.REPLAY
        if replays and engine.counts_rows:
            raise InvalidSpecError(
                f"{self.table}: on_source_change='replay' would count all files again; an Aggregation takes "
                "'continue' or 'fail'"
            )
        engine.refuse_columns(self.table, self.keys)
        engine.refuse_order(self.table, self.order_by)
        for order, group in engine.sequence_groups.items():
            # Without its order a group keeps the table's values for ever.
            if not {name.lower() for name in group} <= {name.lower() for name in self.exclude_columns}:
                self._refuse_excluded("the order of a sequence group", (order,))
        if not engine.ignore_stale:
            return
        if not self.order_by:
            raise InvalidSpecError(
                f"{self.table}: ignore_stale compares order_by with what the table holds; give order_by"
            )
        self._refuse_excluded("columns of order_by, which ignore_stale compares,", self.order_by)
        if self.delete_when and engine.deletes is Deletes.HARD:
            raise InvalidSpecError(
                f"{self.table}: ignore_stale cannot tell a late row of a key whose row, and its order, is gone; "
                "use deletes='soft', which keeps the order, or deletes='ignore'"
            )
