"""Digest what shapes the rows of a source, so that a change of it is noticed between two runs."""

from __future__ import annotations

import hashlib
import json

from airflow_lake_provider.contracts.batch_source import Source
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

_DIGITS = 8


def source_shape(source: Source) -> dict[str, str]:
    """Return each part of a source that shapes its rows, but for those it does not have, with a digest.

    Where the source is does not count, nor does how its schema and query are spaced. Needs a running session.

    :raises BadInputError: the schema cannot be parsed.
    """
    options = {name.lower(): value for name, value in source.options.items()}
    parts = {
        "format": source.format,
        "options": json.dumps(options, sort_keys=True) if options else None,
        "schema": parse_ddl(source.schema).json() if source.schema else None,
        "query": " ".join(source.query.split()) if source.query else None,
        "envelope": source.envelope,
        "envelope_table": source.envelope_table,
    }
    return {name: hashlib.sha256(text.encode()).hexdigest()[:_DIGITS] for name, text in parts.items() if text}
