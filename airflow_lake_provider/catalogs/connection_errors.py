"""Word the errors of a connection: its id, what it holds, what to write instead; never a secret."""

from __future__ import annotations

from airflow_lake_provider.contracts.errors import InvalidConnectionError


def refused(conn_id: str, sentence: str) -> InvalidConnectionError:
    """Return the error for one mistake in a connection.

    :param conn_id: named first, because one DAG may use several.
    :param sentence: what was found and what to write; holds no value of a secret property.
    """
    return InvalidConnectionError(f"connection {conn_id!r}: {sentence}")


# Spark takes these off the ends of a setting in its file (Utils.trimExceptCRLF).
_TRIMMED = "".join(map(chr, range(0x21))).replace("\r", "").replace("\n", "")


def refuse_trimmed(conn_id: str, login: str | None, password: str | None) -> None:
    """Refuse a login that Spark would read without its outer blanks, and the worker with them.

    :raises InvalidConnectionError: naming the field, and not what is in it.
    """
    for name, text in (("login", login), ("password", password)):
        if text and text != text.strip(_TRIMMED):
            raise refused(
                conn_id,
                f"its {name} begins or ends with a blank, which Spark leaves out of its settings; take it away, or "
                "change it at the server",
            )
