"""The dead letter of a load: where records go that cannot be applied, how many there may be, and repaired ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import share
from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.sources import DRIVERS_SIDE, Source
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_name import table_name
from airflow_lake_provider.contracts.text_options import by_lower_name, is_utf8

LETTERS_TABLE = "lake_ops.dead_letters"


def _max_share(value: object, name: str) -> float:
    given = share(value, name)
    if not 0 <= given <= 1:
        raise InvalidSpecError(f"{name} must be a share from 0 to 1, got {value!r}")
    return given


@dataclass(frozen=True, kw_only=True)
class DeadLetter(ArgumentObject):
    """Put records aside that cannot be applied, each as its source has it, and apply the others.

    :param table: lake table of the dead letters, of the same catalog; it is created where it is missing, and many loads
        may share it.
    :param max_share: of the records that one commit reads; a run with more dead letters is refused before it writes
        anything.
    """

    table: str = field(default=LETTERS_TABLE, metadata=reads(table_name))
    max_share: float = field(default=0.01, metadata=reads(_max_share))

    @property
    def needs(self) -> tuple[str, ...]:
        """Letters are added once, by their ids, to a table that may be missing."""
        return ("create-table", "append")

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse a source whose records cannot be put aside one by one, and loads in which their lack does harm."""
        source = spec.source
        if not source.takes_dead_letter:
            raise InvalidSpecError(
                f"{spec.table}: dead_letter takes rows of Files, KafkaTopic, JdbcTable and LakeTable, and "
                f"{type(source).__name__} is something else: {_why_not(source)}"
            )
        if spec.is_complete:
            raise InvalidSpecError(
                f"{spec.table}: complete=True deletes the keys that the batch lacks, so no record of it may be put "
                "aside; leave out dead_letter"
            )
        if isinstance(getattr(spec, "merge_engine", None), History):
            raise InvalidSpecError(
                f"{spec.table}: History makes intervals of all rows of a key, so no record may be put aside; leave out "
                "dead_letter"
            )
        if spec.table.lower() == self.table.lower():
            raise InvalidSpecError(f"{spec.table}: dead_letter needs a table of its own")
        files = source.files
        if files is not None and (unfit := _unfit(str(files.format), files.options)):
            raise InvalidSpecError(
                f"{spec.table}: dead_letter takes a record of text where it is a line of its own, in UTF-8; {unfit}"
            )


def _why_not(source: Source) -> str:
    """Return why records of a source cannot be put aside one by one, in words."""
    if source.is_change_stream:
        return "changes have an order in which none may be missing"
    if source.is_made:
        return "its rows may be others when they are made once more, to be written. Leave bad rows out where it is made"
    return "nothing says what one record of it is. Refuse or leave out bad records where they are read"


def _unfit(kind: str, options: Mapping[str, str]) -> str | None:
    """Return why a record is not found by its line, in words; None where it is, or where files are no text."""
    lower = by_lower_name(options)
    if kind == "xml":
        return "an element of XML may be many lines"
    if kind not in ("csv", "json"):
        return None
    if lower.get("multiline", "false").strip().lower() == "true":
        return "leave out multiLine"
    if not is_utf8(lower):
        return "write the files anew in it, without an encoding"
    if kind == "csv":
        quote = lower.get("quote", '"')
        is_plain = quote and lower.get("escape", quote) == quote and "unescapedquotehandling" not in lower
        if not is_plain or "\\" in lower.get("sep", lower.get("delimiter", ",")).replace("\\t", "\t"):
            return "quotes in a quoted value are doubled, and no backslash parts the values"
        if lower.get("ignoreleadingwhitespace", "false").strip().lower() == "true":
            return "leave out ignoreLeadingWhiteSpace, which makes another value of a blank before a quote"
    return None


def dead_letter(value: object, name: str = "dead_letter") -> DeadLetter | None:
    """Return the dead letter that an author gives; None without one.

    :param value: a dead letter, or a mapping of its fields.
    :raises InvalidSpecError: it is neither.
    """
    if value is None or isinstance(value, DeadLetter):
        return value
    if isinstance(value, Mapping):
        return DeadLetter.from_mapping(value, name)
    raise InvalidSpecError(f"{name} must be a DeadLetter, or a mapping of its fields, got {value!r}")


@dataclass(frozen=True)
class RepairedLetters(Source):
    """Dead letters of the target that somebody has repaired: each is applied once.

    The column ``repaired`` of a letter has the record as one JSON object, with the names of the target's columns.

    :param table: lake table of the dead letters, of the same catalog.
    """

    kind: ClassVar[str] = "repaired-letters"
    reader: ClassVar[str] = f"{DRIVERS_SIDE}.repaired_letters:RepairedLettersSource"
    table: str = field(default=LETTERS_TABLE, metadata=reads(table_name))

    @property
    def letters(self) -> str:  # type: ignore[override]  # of a source of another kind there is none
        """Its table: a letter has no time by which a forgotten one could be told from a new one."""
        return self.table

    @property
    def needs(self) -> tuple[str, ...]:
        """A table of letters is read at a snapshot, and noted in."""
        return ("lake-table-source", "update-rows", *super().needs)

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse loads that put the batch in place of other rows."""
        if spec.is_complete or not spec.keeps_position:
            raise InvalidSpecError(
                f"{spec.table}: repaired letters are a few rows of a batch, and must not replace a table or a "
                "partition; apply them by LakeUpsertOperator without complete, or by LakeAppendOperator"
            )
