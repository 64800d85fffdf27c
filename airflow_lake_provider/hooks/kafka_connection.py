"""Airflow connections to Kafka and to a schema registry, read for the driver of a job. The worker asks neither.

The extra of Airflow's Kafka connections has the names of librdkafka. A driver's client is Java's, with its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from airflow.sdk.log import mask_secret

from airflow_lake_provider.catalogs.catalog_connection import read_extra, read_options
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.secret_properties import forms
from airflow_lake_provider.contracts.source_access import KafkaAccess, RegistryAccess
from airflow_lake_provider.hooks.stored_connection import stored_connection

EXAMPLE = (
    '{"conn_type": "kafka", "extra": {"bootstrap.servers": "broker.example.com:9092", "security.protocol": "SASL_SSL", '
    '"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "reader", "sasl.password": "<password>"}}'
)
REGISTRY_EXAMPLE = (
    '{"conn_type": "http", "host": "https://registry.example.com", "login": "reader", "password": "<password>"}'
)
_PORT = re.compile(r":[0-9]+$")
_HOST_NAME_CHECK = "ssl.endpoint.identification.algorithm"
# librdkafka's names, and Java's.
_PLAIN = {
    "bootstrap.servers": "bootstrap.servers",
    "client.dns.lookup": "client.dns.lookup",
    "client.id": "client.id",
    "request.timeout.ms": "request.timeout.ms",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "security.protocol": "security.protocol",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    _HOST_NAME_CHECK: _HOST_NAME_CHECK,
}
_SECRET = {"ssl.key.pem": "ssl.keystore.key", "ssl.key.password": "ssl.key.password"}
_LOGIN = ("sasl.username", "sasl.password")
# Of consumers with a group and of producers, without a meaning for offsets that a table keeps.
_NOT_OURS = frozenset(
    {
        *("acks", "auto.commit.interval.ms", "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store"),
        *("enable.idempotence", "group.id", "group.instance.id", "heartbeat.interval.ms", "isolation.level"),
        *("linger.ms", "max.poll.interval.ms", "message.timeout.ms", "partitioner", "session.timeout.ms"),
        *("compression.type", "log_level", "statistics.interval.ms", "retries"),
    }
)
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def kafka_access(conn_id: str) -> KafkaAccess:
    """Read a connection of type ``kafka``; its secrets are masked in Airflow's logs from here on.

    :raises InvalidConnectionError: it does not exist, is incomplete, or has an option that cannot be translated.
    """
    stored = stored_connection(conn_id, EXAMPLE)
    if stored.conn_type != "kafka":
        raise refused(conn_id, f"its type is {stored.conn_type!r}; KafkaTopic takes one such as {EXAMPLE}")
    taken = [*_PLAIN, *_SECRET, *_LOGIN]
    given = read_options(conn_id, stored.extra, taken=taken, unused=_NOT_OURS, what="reading topics")
    _mask(stored.password, *(given.get(name) for name in (*_SECRET, "sasl.password")))
    properties = {_PLAIN[name]: value for name, value in given.items() if name in _PLAIN}
    if properties.get(_HOST_NAME_CHECK, "").lower() == "none":
        # Java takes "none" for an algorithm, and trusts no broker.
        properties[_HOST_NAME_CHECK] = ""
    properties["bootstrap.servers"] = _servers(properties.get("bootstrap.servers", ""))
    if not properties["bootstrap.servers"]:
        raise refused(conn_id, f"it needs bootstrap.servers in its extra, for example {EXAMPLE}")
    secrets = {_SECRET[name]: value for name, value in given.items() if name in _SECRET}
    user, password = (given.get(name) for name in _LOGIN)
    protocol = _protocol(conn_id, properties)
    properties["security.protocol"] = protocol
    if "ssl.truststore.location" in properties or "ssl.truststore.certificates" in properties:
        properties["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.key" in secrets or "ssl.keystore.certificate.chain" in properties:
        properties["ssl.keystore.type"] = "PEM"
    if protocol.startswith("SASL"):
        secrets["sasl.jaas.config"] = _login(conn_id, properties, user or stored.login, password or stored.password)
    elif user or password:
        raise refused(conn_id, f"sasl.username has no meaning with security.protocol {protocol!r}; give 'SASL_SSL'")
    return KafkaAccess(properties, secrets)


def _servers(text: str) -> str:
    """Return brokers as Java takes them: librdkafka has a default port, and protocols that do not count."""
    brokers = (each.strip().rpartition("://")[2] for each in text.split(","))
    return ",".join(each if _PORT.search(each) else f"{each}:9092" for each in brokers if each)


def _protocol(conn_id: str, properties: Mapping[str, str]) -> str:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise refused(conn_id, f"security.protocol must be one of {', '.join(_PROTOCOLS)}, got {protocol!r}")
    return protocol


def _login(conn_id: str, properties: Mapping[str, str], user: str | None, password: str | None) -> str:
    mechanism = properties.get("sasl.mechanism", "")
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise refused(
            conn_id,
            f"sasl.mechanism must be one of {', '.join(_LOGIN_MODULES)}; others are not read yet, got {mechanism!r}",
        )
    if not user or not password:
        raise refused(conn_id, f"{mechanism} needs sasl.username and sasl.password, for example {EXAMPLE}")
    return f"{module} required username={_quoted(user)} password={_quoted(password)};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def registry_access(conn_id: str) -> RegistryAccess:
    """Read a connection of type ``http`` to a schema registry.

    :raises InvalidConnectionError: it does not exist, is incomplete, or says what no request would have.
    """
    stored = stored_connection(conn_id, REGISTRY_EXAMPLE)
    _mask(stored.password)
    if stored.conn_type != "http" or not stored.host:
        raise refused(conn_id, f"a registry is a connection of type http with a host, for example {REGISTRY_EXAMPLE}")
    if given := sorted(name for name, value in read_extra(conn_id, stored.extra).items() if value is not None):
        raise refused(
            conn_id, f"a registry is asked with login and password alone; take {', '.join(given)} out of its extra"
        )
    host = stored.host if "://" in stored.host else f"{stored.schema or 'http'}://{stored.host}"
    try:
        address = urlsplit(host)
        place = address.netloc if address.port or not stored.port else f"{address.netloc}:{stored.port}"
    except ValueError:
        # Its text has the host, and what may be before it.
        raise refused(conn_id, f"its host is no address, for example {REGISTRY_EXAMPLE}") from None
    _mask(address.password)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise refused(conn_id, f"a registry is asked by http or https, for example {REGISTRY_EXAMPLE}")
    if "@" in address.netloc:
        raise refused(conn_id, "its host has a user, which errors would show; give login and password in their fields")
    if address.query or address.fragment:
        # What is there may be a key.
        raise refused(conn_id, "its host has something behind '?' or '#', which no request would have; take it away")
    url = urlunsplit((address.scheme, place, address.path.rstrip("/"), "", ""))
    return RegistryAccess(url=url, user=stored.login or "", password=stored.password or "")


def _mask(*secrets: str | None) -> None:
    for secret in secrets:
        for form in forms(secret) if secret else ():
            mask_secret(form)
