"""Name a source as a table keeps it: by its author, by DAG and task, or by a source table's UUID and a consumer."""

from __future__ import annotations

import hashlib
import re

from airflow_lake_provider.contracts.errors import InvalidSpecError

MAX_CHARACTERS = 64
_DIGEST_DIGITS = 16
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# A name is part of a property's name and of ``name=generation``; a metastore may keep either in Latin-1.
_ALLOWED = re.compile(r"[A-Za-z0-9_.-]+")
_OTHERS = re.compile(r"[^A-Za-z0-9_.-]")


def source_name(text: str) -> str:
    """Return the name of a source as a table keeps it, at most 64 characters.

    :param text: the author's, of ASCII letters, digits, ``_``, ``-`` and ``.``.
    :raises InvalidSpecError: it is empty or has other characters.
    """
    if not _ALLOWED.fullmatch(text):
        raise InvalidSpecError(
            f"the name {text!r} of a source must have one or more ASCII letters, digits, '_', '-' or '.': the table "
            "keeps what it has consumed under this name"
        )
    return text if len(text) <= MAX_CHARACTERS else _digested(text, text)


def default_source_name(dag_id: str, task_id: str) -> str:
    """Return the name of a source that its author did not name; ids of DAGs and tasks may have any letters."""
    text = f"{dag_id}.{task_id}"
    plain = _OTHERS.sub("_", text)
    is_unique = plain == text and text.count(".") == 1
    return source_name(text) if is_unique else _digested(plain, f"{dag_id}\x1f{task_id}")


def consumer_source_name(table_uuid: str, consumer: str) -> str:
    """Return the name under which a target keeps how far a consumer has read a source table.

    :param table_uuid: of the source table; one that is dropped and made again has another.
    :param consumer: name of the cursor.
    """
    return source_name(f"{table_uuid}.{consumer}")


def table_of_position(name: str, consumer: str) -> str | None:
    """Return the UUID of the source table whose position a consumer keeps under a name; None for other names.

    :param name: of a position, see :func:`consumer_source_name`; whatever anybody has written there.
    """
    uuid = _UUID.match(name)
    return uuid[0] if uuid is not None and name == consumer_source_name(uuid[0], consumer) else None


def _digested(plain: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{plain[: MAX_CHARACTERS - _DIGEST_DIGITS - 1]}-{digest}"
