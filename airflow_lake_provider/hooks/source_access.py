"""Connections of what a source reads beside the lake: a database, a Kafka cluster, a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from airflow_lake_provider.catalogs.spark_catalog_properties import POSTGRESQL_DRIVER
from airflow_lake_provider.contracts.source_access import DatabaseAccess, KafkaAccess, RegistryAccess
from airflow_lake_provider.hooks.database_connection import database_access
from airflow_lake_provider.hooks.kafka_connection import kafka_access, registry_access

# Its driver reads MySQL, too.
MARIADB_DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
# Of the release of Spark 4.1 that the tests ran with; each 4.1 takes it.
KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"
AVRO_PACKAGE = "org.apache.spark:spark-avro_2.13:4.1.1"
_READERS: Mapping[str, Callable[[str], DatabaseAccess | KafkaAccess | RegistryAccess]] = {
    "database": database_access,
    "kafka": kafka_access,
    "registry": registry_access,
}
# By the scheme of an address.
_DRIVERS: Mapping[str, str] = {"postgresql": POSTGRESQL_DRIVER, "mysql": MARIADB_DRIVER}


def source_access(conn_id: str, kind: str) -> DatabaseAccess | KafkaAccess | RegistryAccess:
    """Read a connection; its secrets are masked in Airflow's logs from here on.

    :param kind: ``database``, ``kafka`` or ``registry``.
    :raises InvalidConnectionError: it does not exist, is incomplete, or has an option that cannot be translated.
    :raises UnsupportedError: it is to something that is not read yet.
    """
    return _READERS[kind](conn_id)


def packages_of(accesses: Iterable[DatabaseAccess | KafkaAccess | RegistryAccess]) -> tuple[str, ...]:
    """Return the packages with which Spark reads what some connections are to."""
    return tuple(dict.fromkeys(package for access in accesses for package in _packages(access)))


def _packages(access: DatabaseAccess | KafkaAccess | RegistryAccess) -> tuple[str, ...]:
    match access:
        case DatabaseAccess():
            return (_DRIVERS[access.address.partition(":")[0]],)
        case KafkaAccess():
            # Avro may come without a registry.
            return (KAFKA_PACKAGE, AVRO_PACKAGE)
    return ()
