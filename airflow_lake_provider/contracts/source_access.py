"""Addresses and logins of databases, Kafka and schema registries, as settings of Spark carry them to a driver.

They are in the file of settings that only the task's user may read, beside the secrets of the catalog. What is secret
has a name that Spark redacts wherever it shows settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

_KAFKA = "spark.lake.kafka"


@dataclass(frozen=True)
class _Login:
    """An address with user and password."""

    prefix: ClassVar[str]
    url: str
    user: str = ""
    password: str = field(default="", repr=False)

    def to_settings(self, conn_id: str) -> dict[str, str]:
        """Return the settings of Spark that hold it.

        :param conn_id: of Airflow's connection.
        """
        given = {"url": self.url, "user": self.user, "password": self.password}
        return {f"{self.prefix}.{conn_id}.{part}": value for part, value in given.items() if value}

    @classmethod
    def from_settings(cls, conn_id: str, settings: Mapping[str, str]) -> Self | None:
        """Read it from a session's settings; None where they do not have this connection."""
        given = {part: settings.get(f"{cls.prefix}.{conn_id}.{part}", "") for part in ("url", "user", "password")}
        return cls(**given) if given["url"] else None


class DatabaseAccess(_Login):
    """Address and login, as a driver of JDBC takes them.

    :param url: ``jdbc:postgresql://host:5432/shop?sslmode=require``, without user and password.
    """

    prefix = "spark.lake.database"

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


class RegistryAccess(_Login):
    """Address and login of a schema registry.

    :param url: ``https://registry.example.com``, without user and password.
    """

    prefix = "spark.lake.registry"


@dataclass(frozen=True)
class KafkaAccess:
    """Properties of a Kafka client, by the names that Java's client has.

    :param properties: what may be seen.
    :param secrets: what may not.
    """

    properties: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def servers(self) -> str:
        """The brokers to begin with, ``host:9092,host:9092``."""
        return self.properties["bootstrap.servers"]

    def address_of(self, topic: str) -> str:
        """Return a topic as OpenLineage names it: ``kafka://host:9092/orders``, of the first broker."""
        return f"kafka://{self.servers.split(',')[0].strip()}/{topic}"

    def to_settings(self, conn_id: str) -> dict[str, str]:
        """Return the settings of Spark that hold it.

        :param conn_id: of Airflow's connection.
        """
        secrets = {f"{_KAFKA}.{conn_id}.secrets": json.dumps(dict(self.secrets))} if self.secrets else {}
        return {f"{_KAFKA}.{conn_id}.properties": json.dumps(dict(self.properties)), **secrets}

    @classmethod
    def from_settings(cls, conn_id: str, settings: Mapping[str, str]) -> Self | None:
        """Read it from a session's settings; None where they do not have this connection."""
        given = settings.get(f"{_KAFKA}.{conn_id}.properties")
        if given is None:
            return None
        return cls(json.loads(given), json.loads(settings.get(f"{_KAFKA}.{conn_id}.secrets", "{}")))
