"""Word the errors of a connection: its id, what it holds, what to write instead; never a secret."""

from __future__ import annotations

from airflow_lake_provider.contracts.errors import InvalidConnectionError


def refused(conn_id: str, sentence: str) -> InvalidConnectionError:
    """Return the error for one mistake in a connection.

    :param conn_id: named first, because one DAG may use several.
    :param sentence: what was found and what to write; holds no value of a secret property.
    """
    return InvalidConnectionError(f"connection {conn_id!r}: {sentence}")
