"""Named inputs of a query or a function: several sources, each under the name of its view."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from airflow_lake_provider.contracts.argument_validation import mapping, path_text
from airflow_lake_provider.contracts.author.sources import (
    ChangeEvents,
    Files,
    OnSourceChange,
    Source,
    TableSource,
    source,
)
from airflow_lake_provider.contracts.errors import InvalidSpecError

# Their positions share one table property of 3,500 characters, where a list of files takes the paths of four.
MOST_INPUTS, MOST_FILES = 8, 2
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}")
# The view of a single input.
_TAKEN = "source"


def is_named(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tell whether a value is a mapping of names to sources, and not of the fields of one source."""
    return isinstance(value, Mapping) and "type" not in value


def queryable(value: object, name: str) -> Source:
    """Return a source that a query or a function can be over.

    :param name: of the argument, for messages.
    :raises InvalidSpecError: it is none, or has a name of its own.
    """
    below = source(path_text(value, name), name)
    if not below.is_queryable:
        raise InvalidSpecError(
            f"{name} must be Files, a LakeTable, Changes, a JdbcTable or a KafkaTopic, got {below!r}"
        )
    if below.name is not None or below.on_source_change is not OnSourceChange.CONTINUE:
        # A template may stand for it.
        change = below.on_source_change
        given = change.value if isinstance(change, OnSourceChange) else change
        raise InvalidSpecError(
            f"{name}: name and on_source_change belong to the {name.partition('.')[0]}, not to what it reads, got "
            f"name={below.name!r}, on_source_change={given!r} below it"
        )
    return below


def named_inputs(value: Mapping[str, Any], name: str) -> dict[str, Source]:
    """Return sources by the name of their view.

    :param name: of the argument, for messages.
    :raises InvalidSpecError: a name is none, two are the same, or an input is no source that a query can be over.
    """
    given = mapping(value, name, "the name of a view to its source")
    if unfit := [each for each in given if not _NAME.fullmatch(each) or each.lower() == _TAKEN]:
        raise InvalidSpecError(
            f"{name} names its inputs by up to 30 letters, digits and '_', a letter first, and not by {_TAKEN!r}, got "
            f"{unfit[0]!r}"
        )
    if twice := [each for each, count in Counter(map(str.lower, given)).items() if count > 1]:
        raise InvalidSpecError(f"{name} names an input twice: SQL takes no notice of case, got {twice[0]!r}")
    if not 1 <= len(given) <= MOST_INPUTS:
        raise InvalidSpecError(f"{name} must name 1 to {MOST_INPUTS} inputs, got {len(given)}")
    inputs = {each: queryable(item, f"{name}[{each!r}]") for each, item in given.items()}
    if len(listed := [each for each, source in inputs.items() if source.files is not None]) > MOST_FILES:
        raise InvalidSpecError(
            f"{name} may have {MOST_FILES} inputs of files at most, got {', '.join(listed)}; put files of one kind "
            "under one path, or load them into a table first"
        )
    return inputs


@dataclass(frozen=True)
class MadeOfInputs(Source):
    """Base of what is made of other sources, whose ``name`` and ``on_source_change`` are those of this one."""

    kind: ClassVar[str] = ""
    is_made: ClassVar[bool] = True

    @property
    def files(self) -> Files | ChangeEvents | None:
        """The files that it reads, and nothing else."""
        single = self.inputs.get("")
        return single.files if single else None

    @property
    def lake_tables(self) -> Mapping[str, TableSource]:
        """The tables that it reads."""
        return {name: table for name, each in self.inputs.items() for table in each.lake_tables.values()}

    @property
    def connections(self) -> Mapping[str, str]:
        """Connections of its inputs."""
        return {conn_id: kind for each in self.inputs.values() for conn_id, kind in each.connections.items()}

    @property
    def is_change_stream(self) -> bool:  # type: ignore[override]  # of what it reads
        """True where one of its inputs has changes of rows."""
        return any(each.is_change_stream for each in self.inputs.values())

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that its inputs need."""
        return tuple(dict.fromkeys(need for each in self.inputs.values() for need in each.needs))

    def tells_deletes(self, keys: Sequence[str]) -> bool:
        """True where one of its inputs does."""
        return any(each.tells_deletes(keys) for each in self.inputs.values())

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse inputs that cannot be read."""
        for each in self.inputs.values():
            each.refuse_reading(spec)

    def refuse_spark(self, version: str) -> None:
        """Refuse inputs that a release of Spark does not read."""
        for each in self.inputs.values():
            each.refuse_spark(version)
