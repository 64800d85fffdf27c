"""Address and login of a database, as settings of Spark carry them from a worker to a driver and its executors.

They are in the file of settings that only the task's user may read, beside the secrets of the catalog. Their names make
Spark redact the password wherever it shows settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

_PREFIX = "spark.lake.database"
_PARTS = ("url", "user", "password")


@dataclass(frozen=True)
class DatabaseAccess:
    """Address and login, as a driver of JDBC takes them.

    :param url: ``jdbc:postgresql://host:5432/shop?sslmode=require``, without user and password.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)

    def to_settings(self, conn_id: str) -> dict[str, str]:
        """Return the settings of Spark that hold it.

        :param conn_id: of Airflow's connection.
        """
        return {_name(conn_id, part): getattr(self, part) for part in _PARTS}

    @classmethod
    def from_settings(cls, conn_id: str, settings: Mapping[str, str]) -> Self | None:
        """Read it from a session's settings; None where they do not have this connection."""
        given = {part: settings.get(_name(conn_id, part), "") for part in _PARTS}
        return cls(**given) if given["url"] else None

    @property
    def address(self) -> str:
        """Scheme, host, port and database: ``postgresql://host:5432/shop``."""
        return self.url.removeprefix("jdbc:").partition("?")[0]

    def address_of(self, table: Sequence[str]) -> str:
        """Return a table as OpenLineage names it, such as ``postgres://host:5432/shop.public.orders``.

        :param table: schema and name, or the name. A schema of MySQL is a database, which may be another one.
        """
        name = ".".join(table)
        if self.address.startswith("postgresql:"):
            return f"{self.address.replace('postgresql:', 'postgres:', 1)}.{name}"
        return f"{self.address.rpartition('/')[0]}/{name}" if len(table) > 1 else f"{self.address}.{name}"


def _name(conn_id: str, part: str) -> str:
    return f"{_PREFIX}.{conn_id}.{part}"
