"""Digest what shapes the rows of a source, so that a change of it is noticed between two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from airflow_lake_provider.contracts.sources import Debezium, Source
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

_DIGITS = 8
# The part that names the table of a stream.
EVENTS_OF = "envelope_table"


def source_shape(source: Source) -> dict[str, str]:
    """Return each part of a source that shapes its rows, but for those it does not have, with a digest.

    Where the source is does not count, nor does how its schema and query are spaced. Needs a running session.

    :raises BadInputError: the schema cannot be parsed.
    """
    files = source.files
    options = {name.lower(): value for name, value in (files.options if files else {}).items()}
    events = source if isinstance(source, Debezium) else None
    parts = {
        "format": files.format if files else None,
        "options": json.dumps(options, sort_keys=True) if options else None,
        "schema": parse_ddl(files.schema).json() if files and files.schema else None,
        "query": " ".join(source.query.split()) if source.query else None,
        "envelope": events.kind if events else None,
        EVENTS_OF: events.table if events else None,
    }
    return {name: _digest(text) for name, text in parts.items() if text}


def earlier_table(before: Mapping[str, str], now: Mapping[str, str], source: Source) -> str | None:
    """Return the digest of the stream's table that was read before, where another one is read now.

    ``items`` that became ``public.items`` is the same one.

    :param before: shape of the last commit; ``now``: of the source.
    """
    former = before.get(EVENTS_OF)
    if former is None or EVENTS_OF not in now or not isinstance(source, Debezium):
        return None
    return None if former in (now[EVENTS_OF], _digest(source.table.rpartition(".")[2])) else former


def is_table(name: str, digest: str) -> bool:
    """Return whether a digest is that of a stream's table, with or without its schema.

    :param name: ``<schema>.<table>``.
    """
    return digest in (_digest(name), _digest(name.rpartition(".")[2]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
