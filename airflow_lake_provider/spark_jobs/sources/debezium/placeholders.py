"""Tell values that the server did not send, in each form that a connector and its converter give them.

Source: Debezium's ``UnchangedToastedPlaceholder``, ``UnchangedToastedReplicationMessageColumn`` and
``ReselectColumnsPostProcessor``, as of August 2026; DBZ-7599 for bytes in hex.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as sf


def is_placeholder(text: Column, unavailable: bytes) -> Column:
    """Return whether the JSON text of a value is one of the placeholder's forms.

    :param unavailable: the connector's placeholder.
    """
    forms = list(dict.fromkeys(_forms(unavailable)))
    compact = [form.replace(" ", "") for form in forms if form[:1] in ("[", "{")]
    # Every value of every event is looked at, and most of a long one need not be.
    is_short = sf.octet_length(text) <= 2 * max(len(form.encode()) for form in forms)
    # Only an array or a map can hold spaces that some rewriting tool put there.
    is_nested = text.startswith("[") | text.startswith("{")
    is_form = text.isin(*forms) | (is_nested & sf.replace(text, sf.lit(" "), sf.lit("")).isin(*compact))
    return sf.coalesce(is_short & is_form, sf.lit(False))


def _forms(unavailable: bytes) -> Iterator[str]:
    text = unavailable.decode(errors="replace")
    scalars = [
        text,
        unavailable.hex(),
        unavailable.hex().upper(),
        base64.b64encode(unavailable).decode(),
        base64.urlsafe_b64encode(unavailable).decode(),
    ]
    yield from scalars
    # Of integers and of dates: the placeholder's bytes, which Java takes for signed ones.
    yield json.dumps([byte - 256 if byte > 127 else byte for byte in unavailable], separators=(",", ":"))
    for element in (*scalars, _uuid(unavailable)):
        yield from _json([element])
    # Of hstore, as a map and as JSON.
    yield from _json({text: text})


def _uuid(unavailable: bytes) -> str:
    """Return the name-based UUID of bytes without a namespace, as Java's ``UUID.nameUUIDFromBytes``."""
    digest = hashlib.md5(unavailable, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _json(value: object) -> Iterator[str]:
    for is_ascii in (True, False):
        yield json.dumps(value, separators=(",", ":"), ensure_ascii=is_ascii)
