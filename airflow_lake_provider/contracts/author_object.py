"""Small frozen objects that an author writes in a DAG and the driver reads: each is checked when it is made.

``Files("s3a://in/{{ ds }}/*.parquet")`` is made before its template is rendered. A field that is still open is checked
later, by :meth:`AuthorObject.checked`; everything else is refused while the DAG is parsed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.argument_validation import NO_VALUE, Reader, is_path, path_text
from airflow_lake_provider.contracts.durations import to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError

# A field's default stands in.
_DEFAULT = object()
_TEMPLATE_MARKS = ("{{", "{%", "{#")
# A path alone: SQL that ends so has blanks or quotes before.
_SQL_FILE = re.compile(r"[^\s'\"`(){};]+\.sql")


def is_open(value: object) -> bool:
    """Return whether a value has a template or a reference to XCom in it, which is rendered later."""
    if isinstance(value, str):
        return any(mark in value for mark in _TEMPLATE_MARKS)
    if isinstance(value, AuthorObject):
        return any(_is_open_in(getattr(value, field.name), field) for field in fields(value))
    if isinstance(value, Mapping):
        return any(is_open(item) for item in value.values())
    if isinstance(value, (list, tuple, set)):
        return any(is_open(item) for item in value)
    # As Airflow tells what it resolves: an XComArg has this method, and a path another of its name.
    return is_open(str(value)) if is_path(value) else callable(getattr(value, "resolve", None))


def refuse_template(value: object, name: str) -> None:
    """Refuse a template where nothing would render it.

    :param name: of the argument, for the message.
    :raises InvalidSpecError: naming it.
    """
    if is_open(value):
        raise InvalidSpecError(f"{name} is not templated, so {value!r} would stay as it is; give the value itself")


def is_sql_file(value: object) -> bool:
    """Return whether a text of an argument for SQL is the path of a file, ``sql/revenue.sql``."""
    return isinstance(value, str) and _SQL_FILE.fullmatch(value) is not None


def has_sql_file(value: object) -> bool:
    """Return whether a text, a mapping of texts or an author object names a file of SQL."""
    if isinstance(value, AuthorObject):
        given = [(getattr(value, field.name), field) for field in fields(value)]
        return any(has_sql_file(item) for item, field in given if _is_sql(field) or isinstance(item, AuthorObject))
    if isinstance(value, Mapping):
        return any(is_sql_file(item) for item in value.values())
    return is_sql_file(value)


def reads(
    reader: Reader, stand_in: Any = _DEFAULT, *, is_sql: bool = False, is_later: bool = False
) -> Mapping[str, Any]:
    """Return the metadata of a field.

    :param reader: reads what an author gives.
    :param stand_in: stands for an open value while the other fields are checked; left out, the field's default does.
    :param is_sql: the field is a text of SQL, or maps names to such texts; a text may be the path of a file.
    :param is_later: the field was added to a class that tables know by its digest: its default is left out of JSON.
    """
    return {"reader": reader, "stand_in": stand_in, "is_sql": is_sql, "is_later": is_later}


@dataclass(frozen=True)
class AuthorObject:
    """Base of the objects: fields with a reader each, which normalises a value or refuses it."""

    # Value of ``type`` in a mapping, where one argument takes several classes.
    kind: ClassVar[str] = ""
    # It names code of the author's: no mapping may, as it could come from a form.
    runs_code: ClassVar[bool] = False
    # Whether the readers take what JSON has; otherwise values are made by the types of the fields first.
    reads_json: ClassVar[bool] = True
    # Fields with a stand-in; no annotation, which would make it a field.
    _stood_in = frozenset[str]()

    def __post_init__(self) -> None:
        self._take_paths()
        known_fields = [field for field in fields(self) if not _is_open_in(getattr(self, field.name), field)]
        if len(known_fields) < len(fields(self)):
            self._read(fields_of=known_fields)
            # What is known must go together, whatever the rest becomes.
            self.with_stand_ins()
        else:
            self._read(fields_of=list(fields(self)))
            self.complete()

    def complete(self) -> None:
        """Derive what follows from other fields, and refuse what does not go together; all are known, or stood in for.

        :raises InvalidSpecError: it says which.
        """

    def is_final(self, *names: str) -> bool:
        """Return whether fields have their own values: no stand-in is refused for what a template may mend.

        :param names: of fields.
        """
        return self._stood_in.isdisjoint(names)

    def checked(self) -> Self:
        """Return the object with all fields checked; nothing is a template any more.

        :raises InvalidSpecError: a field cannot be what it was rendered to.
        """
        copied = copy.copy(self)
        copied._take_paths()
        copied._read(fields_of=list(fields(copied)), is_rendered=True)
        copied.complete()
        return copied

    def rendered(self, render: Callable[[Any], Any]) -> Self:
        """Return a copy whose open fields are what ``render`` makes of them, not checked yet."""
        copied = copy.copy(self)
        for field in fields(copied):
            value = getattr(copied, field.name)
            # Jinja would turn an enumeration's member into its Python name.
            if is_open(value):
                object.__setattr__(copied, field.name, _or_refused(render(value), field))
        return copied

    def with_sql_files(self, read: Callable[[str], str]) -> Self:
        """Return a copy with the texts of its files of SQL, not rendered and not checked yet.

        :param read: returns the text of a file.
        """
        copied = copy.copy(self)
        for field in fields(copied):
            value = getattr(copied, field.name)
            if isinstance(value, AuthorObject):
                object.__setattr__(copied, field.name, value.with_sql_files(read))
            elif _is_sql(field) and isinstance(value, Mapping):
                texts = {key: read(item) if is_sql_file(item) else item for key, item in value.items()}
                object.__setattr__(copied, field.name, texts)
            elif _is_sql(field) and is_sql_file(value):
                object.__setattr__(copied, field.name, read(value))
        return copied

    def with_stand_ins(self) -> Self:
        """Return a copy without open values: each is what the field is without it.

        :raises InvalidSpecError: what is known cannot be, or does not go together.
        """
        copied = copy.copy(self)
        given = {field.name: (getattr(self, field.name), field) for field in fields(self)}
        open_fields = frozenset(name for name, (value, field) in given.items() if _needs_stand_in(value, field))
        object.__setattr__(copied, "_stood_in", open_fields)
        for name, (value, field) in given.items():
            value = _stand_in(field) if name in open_fields else _with_stand_ins(value)
            object.__setattr__(copied, name, value)
        copied._read(fields_of=list(fields(copied)))
        copied.complete()
        return copied

    def to_mapping(self) -> dict[str, Any]:
        """Return the mapping that :meth:`from_mapping` takes; fields with their default are left out."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        kept = {field.name: _plain(given[field.name]) for field in fields(self) if given[field.name] != _default(field)}
        return {"type": self.kind, **kept} if self.kind else kept

    def serialize(self) -> dict[str, Any]:
        """Return what Airflow shows of a rendered field; it masks values under names such as ``password``."""
        return self.to_mapping()

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any], name: str = "") -> Self:
        """Read a mapping of fields; where an argument takes several classes, with ``type``.

        :param name: argument that the mapping is of, for messages.
        :raises InvalidSpecError: the type or a field is not known, or a field is missing or cannot be what it is.
        """
        given = dict(value)
        chosen = cls._of_type(given, name or cls.__name__)
        field_of = {field.name: field for field in fields(chosen)}
        unknown = sorted(map(str, given.keys() - field_of.keys()))
        if unknown:
            raise InvalidSpecError(f"{name or chosen.__name__} has no {unknown}; it takes {', '.join(field_of)}")
        required = (field for field in field_of.values() if _default(field) is MISSING)
        missing = [chosen._author_name(field) for field in required if field.name not in given]
        if missing:
            shown = ", ".join(chosen._author_name(field_of[each]) for each in given)
            raise InvalidSpecError(f"{name or chosen.__name__} needs {', '.join(missing)}, got {shown or 'nothing'}")
        try:
            return chosen(**given)
        except InvalidSpecError as error:
            raise InvalidSpecError(f"{name}: {error}" if name else str(error)) from None

    @classmethod
    def _of_type(cls, given: dict[str, Any], name: str) -> type[Self]:
        kinds = cls.kinds()
        if not kinds:
            return cls
        asked = given.pop("type", cls.kind or None)
        if not isinstance(asked, str) or asked not in kinds:
            shown = ", ".join(repr(kind) for kind, concrete in kinds.items() if not concrete.runs_code)
            raise InvalidSpecError(f"{name} needs a type, one of {shown}, got {asked!r}")
        if kinds[asked].runs_code:
            raise InvalidSpecError(
                f"{name}: {kinds[asked].__name__} runs code, which no mapping may name; make the object in the DAG"
            )
        return kinds[asked]

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """Return the classes that this one stands for, by ``type``; none where it stands for itself."""
        below = {kind: concrete for sub in cls.__subclasses__() for kind, concrete in sub.kinds().items()}
        return {cls.kind: cls, **below} if cls.kind else below

    @classmethod
    def _author_name(cls, field: Field[Any]) -> str:
        """Return the name by which an author gives a field."""
        return field.name

    def _label(self, field: Field[Any]) -> str:
        """Return how messages name a field."""
        return f"{type(self).__name__}.{field.name}"

    def _take_paths(self) -> None:
        """Make texts of the fields that are path objects; a template may be in one."""
        for field in fields(self):
            if is_path(value := getattr(self, field.name)):
                object.__setattr__(self, field.name, path_text(value, self._label(field)))

    def _read(self, *, fields_of: list[Field[Any]], is_rendered: bool = False) -> None:
        for field in fields_of:
            value = field.metadata["reader"](getattr(self, field.name), self._label(field))
            if is_rendered:
                value = _checked(value)
            object.__setattr__(self, field.name, value)


@dataclass(frozen=True)
class ArgumentObject(AuthorObject):
    """Base of the objects that are arguments of a spec: each says what it asks of the format and the rest."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Capabilities that the format has to have for it."""
        return ()

    @property
    def column_names(self) -> Mapping[str, Iterable[str]]:
        """Names of columns that it writes, by its fields."""
        return {}

    @property
    def transforms(self) -> frozenset[str]:
        """Transforms of columns by which a table is laid out."""
        return frozenset()

    @property
    def code(self) -> Mapping[str, str | None]:
        """SQL that an author wrote, by what messages call it."""
        return {}

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse a spec whose other arguments do not go with this one.

        :param spec: such as an :class:`.UpsertSpec`.
        :raises InvalidSpecError: naming them.
        """

    def refuse_spark(self, version: str) -> None:
        """Refuse what a version of Spark cannot do for it.

        :param version: ``3.5``, or with more numbers.
        :raises UnsupportedError: saying what can be done.
        """

    def without_policy(self) -> Self:
        """Return what is applied, without what may be done about it when it has changed."""
        return self


def _with_stand_ins(value: Any) -> Any:
    if isinstance(value, AuthorObject):
        return value.with_stand_ins()
    return {name: each.with_stand_ins() for name, each in value.items()} if _maps_objects(value) else value


def _checked(value: Any) -> Any:
    if isinstance(value, AuthorObject):
        return value.checked()
    return {name: each.checked() for name, each in value.items()} if _maps_objects(value) else value


def _maps_objects(value: Any) -> bool:
    is_mapping = isinstance(value, Mapping) and bool(value)
    return is_mapping and all(isinstance(each, AuthorObject) for each in value.values())


def _needs_stand_in(value: Any, field: Field[Any]) -> bool:
    return not isinstance(value, AuthorObject) and not _maps_objects(value) and _is_open_in(value, field)


def _stand_in(field: Field[Any]) -> Any:
    stand_in = field.metadata["stand_in"]
    return _default(field) if stand_in is _DEFAULT else stand_in


def _is_sql(field: Field[Any]) -> bool:
    return bool(field.metadata["is_sql"])


def _is_open_in(value: Any, field: Field[Any]) -> bool:
    return is_open(value) or (_is_sql(field) and has_sql_file(value))


def is_left_out(value: Any, field: Field[Any]) -> bool:
    """Return whether JSON is without a field that has its default, as it was before the class had the field."""
    return bool(field.metadata.get("is_later")) and value == _default(field)


def _or_refused(rendered: Any, field: Field[Any]) -> Any:
    """Return what a template or XCom gave; where None would lift a limit of the author's, a text that is refused."""
    return NO_VALUE if rendered is None and field.metadata.get("is_limit") else rendered


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: Any) -> Any:
    if isinstance(value, AuthorObject):
        return value.to_mapping()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return to_iso(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
