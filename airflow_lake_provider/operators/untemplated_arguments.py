"""Arguments that only operators have, refused with a sentence where they cannot be."""

from __future__ import annotations

from datetime import timedelta

from airflow_lake_provider.contracts import argument_validation
from airflow_lake_provider.contracts.author_object import is_open
from airflow_lake_provider.contracts.errors import InvalidSpecError


def text(value: object, name: str) -> str:
    """Return a text of an argument that is not templated.

    :raises InvalidSpecError: for anything else, an empty text, and a template, which nothing would render.
    """
    return _refuse_template(argument_validation.text(value, name), name)


def optional_text(value: object, name: str) -> str | None:
    """Return a text, or None where there is none.

    :raises InvalidSpecError: as of :func:`text`.
    """
    return None if value is None else text(value, name)


def names(value: object, name: str, what: str = "column names") -> tuple[str, ...]:
    """Return names of an argument that is not templated.

    :param what: the texts are, for the message.
    :raises InvalidSpecError: for what is no list of texts, and for templates.
    """
    return tuple(_refuse_template(item, name) for item in argument_validation.names(value, name, what))


def texts(value: object, name: str, what: str) -> dict[str, str]:
    """Return texts by name of an argument that is not templated, such as SQL by column.

    :param what: of each entry, for the message: ``"a column to its function"``.
    :raises InvalidSpecError: for what is no mapping of names to texts, and for templates.
    """
    found = argument_validation.texts(value, name, what)
    return {key: _refuse_template(entry, f"{name}[{key!r}]") for key, entry in found.items()}


def _refuse_template(value: str, name: str) -> str:
    if is_open(value):
        raise InvalidSpecError(f"{name} is not templated, so {value!r} would stay as it is; give the value itself")
    return value


def at_least_nothing(value: object, name: str) -> timedelta:
    """Return a duration of zero or more that the code of a DAG gives.

    :raises InvalidSpecError: for a text, which a template could have made, and for less than zero.
    """
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidSpecError(f"{name} must be a timedelta of zero or more, and no template, got {value!r}")
    return value


def share(value: object, name: str) -> float:
    """Return a number such as ``0.1``.

    :raises InvalidSpecError: for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidSpecError(f"{name} must be a number such as 0.1, got {value!r}")
    return float(value)
