"""Spec of one task of a job: an author's arguments, each said once, and the frame in which it travels to a driver.

A field made by :func:`argument` is an argument of the operator. The field says how it is read, what stands for it while
a DAG is parsed, and whether it is templated. Operators take signature, template fields and spec from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypedDict

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.argument_validation import Reader, positive, text
from airflow_lake_provider.contracts.author_object import (
    ArgumentObject,
    AuthorObject,
    is_left_out,
    is_open,
    reads,
    refuse_template,
)
from airflow_lake_provider.contracts.capabilities import FORMATS, FormatCapabilities, declared_format
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.json_codec import to_json, to_plain
from airflow_lake_provider.contracts.reserved_columns import refuse_reserved_names
from airflow_lake_provider.contracts.sql_limits import check_code, is_unicode
from airflow_lake_provider.contracts.table_name import TableName

# Nobody's, while a DAG is parsed.
UNKNOWN_RUN = RunIdentity.of("parsed")
_TABLE = "namespace.table"


class SpecFrame(TypedDict):
    """Fields that every spec has beside the arguments of its operator."""

    catalog: str
    table_format: str
    run: RunIdentity


def argument(reader: Reader, stand_in: Any = MISSING, *, default: Any = MISSING, **more: Any) -> Any:
    """Return a field of a spec that an author gives.

    :param reader: reads what an author gives, and what it has read once already.
    :param stand_in: stands for a template while a DAG is parsed; left out, the default does.
    :param more: ``templated=False``: no template may make it. ``is_shown=False``: Airflow does not keep it among the
        rendered fields. ``is_sql=True``: it is SQL, which may be the path of a file. ``is_object=True``: it is an
        author object, which a mapping may stand for. ``attribute``: the operator keeps it under another name.
        ``author_name``: its author gives it by another name. ``needs``: capabilities that the format has to have where
        it is given, or a function of its value that returns them. ``names_columns=True``: it names columns.
        ``is_snapshot=True``: it is the id of a snapshot. ``is_code=True``: it is SQL that runs as the author wrote it.
        ``is_limit=True``: without it more would be done; a template or XCom that gives None is refused.
        ``is_later=True``: see :func:`.reads`.
    """
    stands = {} if stand_in is MISSING else {"stand_in": stand_in}
    metadata = {**reads(reader, is_sql=more.pop("is_sql", False), **stands), "is_argument": True, **more}
    return field(default=default, metadata=metadata)


def attempts(default: int = 5) -> Any:
    """Return the field ``max_attempts`` of a spec: commits, or tries, before a conflict fails the task."""
    return argument(positive, default=default, templated=False)


def derived(default: Any = MISSING, *, is_later: bool = False) -> Any:
    """Return a field of a spec that the worker adds; no author gives it.

    :param is_later: see :func:`.reads`.
    """
    return field(default=default, metadata=reads(lambda value, _: value, is_later=is_later))


@dataclass(frozen=True, kw_only=True)
class JobSpec(AuthorObject):
    """Fields that the specs of all actions share.

    :param catalog: name of the Spark catalog, which is the connection id or its ``catalog_name``; empty while the spec
        is only what an author wrote.
    :param table: ``namespace.table`` that the action commits to.
    :param table_format: name of a format of ``contracts.capabilities``.
    :param run: who asks.
    :param task_name: by which an application knows one of several tasks again; None without one.
    """

    action: ClassVar[str] = ""
    # That the format has to have for each such job; see :attr:`needs`.
    capabilities: ClassVar[tuple[str, ...]] = ()
    reads_json: ClassVar[bool] = False
    # Fields that say nothing of what is applied: who asks and what is allowed, how to check and try.
    not_applied: ClassVar[frozenset[str]] = frozenset(
        {"run", "task_name", "on_repeat", "max_attempts", "audits", "allow_sql"}
    )
    # Arguments that only the table's format understands: it is opened with them.
    format_arguments: ClassVar[tuple[str, ...]] = ()
    catalog: str = derived("")
    table: str = argument(text, _TABLE)
    run: RunIdentity = derived(UNKNOWN_RUN)
    table_format: str = derived("iceberg")
    task_name: str | None = derived(None, is_later=True)

    @classmethod
    def arguments(cls) -> list[Argument]:
        """Return what an author gives, the table first."""
        return [Argument(field) for field in fields(cls) if field.metadata.get("is_argument")]

    def __post_init__(self) -> None:
        for argument in self.arguments():
            value = argument.as_object(getattr(self, argument.name))
            argument.refuse_template(value)
            object.__setattr__(self, argument.name, value)
        super().__post_init__()

    def complete(self) -> None:
        """Refuse what does not go together, or what no known format can do; all arguments are known.

        :raises InvalidSpecError: it says which.
        """
        TableName.parse(self.table)
        refusals = list(self._refusals_of(FORMATS.values()))
        # While a DAG is parsed no format is chosen yet.
        if None not in refusals:
            raise InvalidSpecError("; ".join(filter(None, refusals)))

    def framed(self, frame: SpecFrame) -> Self:
        """Return the spec as it is sent, with all fields checked; nothing is a template any more.

        :raises InvalidSpecError: a field cannot be what it was rendered to, or what is sent.
        """
        spec = replace(self, **frame).checked()
        # What cannot be written is known of its task alone, and not of a job of many.
        spec.to_json_data()
        return spec

    def to_json_data(self) -> dict[str, Any]:
        """Return the fields as JSON has them.

        :raises InvalidSpecError: a text of it is none that Java can take.
        """
        plain: dict[str, Any] = to_plain(self)
        if not is_unicode(json.dumps(plain, ensure_ascii=False)):
            raise InvalidSpecError(
                f"{self.table}: an argument has half of a pair of surrogates, such as '\\ud800', which is no "
                "character; look at where its text comes from"
            )
        return plain

    def refuse_code(self) -> None:
        """Refuse SQL that runs shell commands, unless ``allow_sql`` takes it.

        :raises InvalidSpecError: naming the argument.
        """
        given = [code for each in self.arguments() if each.is_code for code in each.code(getattr(self, each.name))]
        given += [code for each in self._objects() for code in each.code.items()]
        named = {f"{self.table}: {what}": text for what, text in given}
        check_code(named, allow_sql=bool(getattr(self, "allow_sql", False)))

    def _objects(self) -> list[ArgumentObject]:
        values = [getattr(self, each.name) for each in self.arguments()]
        return [value for value in values if isinstance(value, ArgumentObject)]

    def checked_for(self, table_format: str) -> Self:
        """Return the spec with all fields checked, where a table format can do what it asks.

        :raises InvalidSpecError: a field cannot be what it was rendered to, or names a column that the format reserves.
        :raises UnsupportedError: the format is not known, or lacks a capability; it says which.
        """
        checked = self.checked()
        checked.refuse_for(declared_format(table_format))
        return checked

    def refuse_for(self, table_format: FormatCapabilities) -> None:
        """Refuse what a table format cannot do, whatever its table is like.

        :raises InvalidSpecError: an argument names a column that the format reserves, or is no id of a snapshot in it.
        :raises UnsupportedError: the format lacks a capability or a transform.
        """
        table_format.refuse_lacking(self.table, self.needs)
        table_format.refuse_transforms(self.table, self.transforms)
        for what, snapshot in self.snapshots.items():
            if snapshot is not None:
                table_format.refuse_snapshot_id(self.table, what, snapshot)
        for what, names in self.columns.items():
            refuse_reserved_names(self.table, what, names, table_format)

    def refuse_spark(self, version: str) -> None:
        """Refuse what a version of Spark cannot do.

        :param version: ``3.5``, or with more numbers.
        :raises UnsupportedError: saying what can be done.
        """
        for each in self._objects():
            each.refuse_spark(version)

    def _refusals_of(self, table_formats: Iterable[FormatCapabilities]) -> Iterator[str | None]:
        for each in table_formats:
            try:
                self.refuse_for(each)
            except (InvalidSpecError, UnsupportedError) as error:
                yield str(error)
            else:
                yield None

    @property
    def is_framed(self) -> bool:
        """Tell whether it is sent, rather than written by an author."""
        return bool(self.catalog)

    @property
    def name(self) -> TableName:
        """The parsed table name."""
        return TableName.parse(self.table)

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the table's format has to have, by their names in ``contracts.capabilities``."""
        of_objects = (need for each in self._objects() for need in each.needs)
        of_others = (need for each in self.arguments() for need in each.needs(getattr(self, each.name)))
        return (*self.capabilities, *of_objects, *of_others)

    @property
    def columns(self) -> Mapping[str, Iterable[str]]:
        """Names that columns of the table have, or are to have, by the argument that gives them."""
        named = {each.author_name: getattr(self, each.name) for each in self.arguments() if each.names_columns}
        return {**named, **{name: names for each in self._objects() for name, names in each.column_names.items()}}

    @property
    def snapshots(self) -> Mapping[str, str | None]:
        """Ids of snapshots, by the argument that gives them."""
        return {each.author_name: getattr(self, each.name) for each in self.arguments() if each.is_snapshot}

    @property
    def transforms(self) -> frozenset[str]:
        """Transforms of columns by which a table is laid out."""
        return frozenset().union(*(each.transforms for each in self._objects()))

    @property
    def target_branch(self) -> str:
        """Branch that the action commits to."""
        return "main"

    def digest_text(self) -> str:
        """Return what is applied as canonical JSON."""
        applied = {each: getattr(self, each.name) for each in fields(self) if each.name not in self.not_applied}
        values = {each.name: value for each, value in applied.items() if not is_left_out(value, each)}
        plain = {
            name: to_plain(value.without_policy() if isinstance(value, ArgumentObject) else value)
            for name, value in values.items()
        }
        return to_json({"action": self.action, **plain})

    def to_mapping(self) -> dict[str, Any]:
        """Return the author's arguments with the action, as a task of :class:`.LakeApplicationOperator` has them."""
        given = super().to_mapping()
        named = {argument.author_name: given[argument.name] for argument in self.arguments() if argument.name in given}
        name = {} if self.task_name is None else {"name": self.task_name}
        return {"action": self.action, **name, **named}

    def serialize(self) -> dict[str, Any]:
        """Return what Airflow shows of a task, without what may name whom to forget."""
        unseen = {
            argument.author_name for argument in self.arguments() if argument.is_templated and not argument.is_shown
        }
        return {name: "***" if name in unseen else value for name, value in self.to_mapping().items()}

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any], name: str = "") -> Self:
        """Read the arguments of an operator, by the names that its author gives them.

        :raises InvalidSpecError: an argument is not known, is missing, or cannot be what it is.
        """
        argument_of = {each.author_name: each for each in cls.arguments()}
        if unknown := sorted(map(str, value.keys() - argument_of.keys())):
            takes = ", ".join(("name", *argument_of))
            raise InvalidSpecError(f"{name or cls.action} has no {unknown}; it takes {takes}")
        return super().from_mapping(
            {argument_of[key].name: argument_of[key].given(item) for key, item in value.items()}, name
        )

    @classmethod
    def _author_name(cls, field: Field[Any]) -> str:
        return Argument(field).author_name

    def _label(self, field: Field[Any]) -> str:
        return self._author_name(field)


@dataclass(frozen=True)
class Argument:
    """An argument of an operator, as the field of its spec describes it."""

    field: Field[Any]

    @property
    def name(self) -> str:
        """Name of the field."""
        return self.field.name

    @property
    def author_name(self) -> str:
        """Name by which an author gives it."""
        return str(self.field.metadata.get("author_name", self.name))

    @property
    def attribute(self) -> str:
        """Name of the operator's attribute."""
        return str(self.field.metadata.get("attribute", self.author_name))

    @property
    def is_templated(self) -> bool:
        """Tell whether a template may make it."""
        return bool(self.field.metadata.get("templated", True))

    @property
    def is_shown(self) -> bool:
        """Tell whether Airflow renders it, and keeps and shows what it rendered."""
        return self.is_templated and bool(self.field.metadata.get("is_shown", True))

    @property
    def is_sql(self) -> bool:
        """Tell whether it is SQL, or the path of a file of it."""
        return bool(self.field.metadata["is_sql"])

    @property
    def is_object(self) -> bool:
        """Tell whether it is an author object."""
        return bool(self.field.metadata.get("is_object", False))

    @property
    def names_columns(self) -> bool:
        """Tell whether it names columns of the table."""
        return bool(self.field.metadata.get("names_columns", False))

    @property
    def is_snapshot(self) -> bool:
        """Tell whether it is the id of a snapshot."""
        return bool(self.field.metadata.get("is_snapshot", False))

    @property
    def is_code(self) -> bool:
        """Tell whether it is SQL that runs as its author wrote it."""
        return bool(self.field.metadata.get("is_code", False))

    @property
    def is_limit(self) -> bool:
        """Tell whether more would be done without it."""
        return bool(self.field.metadata.get("is_limit", False))

    def code(self, value: Any) -> list[tuple[str, Any]]:
        """Return the SQL of its value, by what messages call each text."""
        if isinstance(value, Mapping):
            return [(f"{self.author_name}[{key!r}]", text) for key, text in value.items()]
        return [(self.author_name, value)]

    def needs(self, value: Any) -> tuple[str, ...]:
        """Return the capabilities that the format has to have for a value, beside those of an author object."""
        needs = self.field.metadata.get("needs", ())
        if callable(needs):
            return tuple(needs(value))
        return tuple(needs) if value not in (None, False) else ()

    def as_object(self, value: Any) -> Any:
        """Return the author object that a mapping stands for, whatever is open in it; other values as they are."""
        if not self.is_object or not isinstance(value, Mapping) or is_open(value.get("type")):
            return value
        return self.field.metadata["reader"](value, self.author_name)

    def given(self, value: Any) -> Any:
        """Return what an author gives.

        :raises InvalidSpecError: None for an argument that is left out for its default.
        """
        if value is None and self.is_object and self.field.default is not None:
            raise InvalidSpecError(f"{self.author_name} must not be None; leave it out for its default")
        return value

    def read(self, value: Any) -> Any:
        """Return a value that no template can change any more.

        :raises InvalidSpecError: it cannot be what the argument is.
        """
        self.refuse_template(self.given(value))
        return self.field.metadata["reader"](value, self.author_name)

    def refuse_template(self, value: Any) -> None:
        """Refuse a template that nobody would render.

        :raises InvalidSpecError: naming the argument.
        """
        if not self.is_templated:
            refuse_template(value, self.author_name)
