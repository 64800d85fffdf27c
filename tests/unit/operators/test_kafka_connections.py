"""The way of Kafka's and a registry's logins from Airflow connections to a driver, and connections that are refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.catalogs.secret_properties import REDACTION_REGEX
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import InvalidConnectionError
from airflow_lake_provider.contracts.source_access import KafkaAccess, RegistryAccess
from airflow_lake_provider.hooks.kafka_connection import kafka_access, registry_access
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.hooks.source_access import AVRO_PACKAGE, KAFKA_PACKAGE
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.spark_submission import spark_submit_arguments
from tests.unit.operators.submitted import opened
from tests.unit.submission import java_properties

if TYPE_CHECKING:
    from airflow.sdk import Context

PASSWORD = 'hunter2 "=:\\ü'
LOCAL = SparkTarget(master="local[2]", cluster_mode=False)
SERVERS = {"bootstrap.servers": "a:9092,b:9092"}
SASL = {**SERVERS, "security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "reader"}
PEM = "-----BEGIN PRIVATE KEY-----hunter2"

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory")


@pytest.fixture(autouse=True)
def lake_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection ``lake_default`` on SQLite."""
    extra = {"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))


def given(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


def test_logins_go_to_the_driver_in_the_private_file_of_settings_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "shop", conn_type="kafka", extra={**SASL, "sasl.password": PASSWORD, "group.id": "g"})
    given(monkeypatch, "schemas", conn_type="http", host="https://r", port=8081, login="u", password=PASSWORD)
    topic = KafkaTopic("shop", "orders", value_format="avro", registry="schemas")
    job = LakeAppendOperator(task_id="t", table="shop.orders", source=Query("SELECT * FROM source", over=topic))
    attempt = opened(job, context, LOCAL)
    found = spark_submit_arguments(attempt, job, attempt.driver_start(job))
    assert {KAFKA_PACKAGE, AVRO_PACKAGE} <= set(found["packages"].split(","))
    settings = java_properties.load(attempt.files.settings.read_text(encoding="utf-8"))
    access = KafkaAccess.from_settings("shop", settings)
    assert access is not None
    assert access.properties == {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    assert access.secrets == {
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="reader" password="hunter2 \\"=:\\\\ü";'
    }
    assert RegistryAccess.from_settings("schemas", settings) == RegistryAccess("https://r:8081", "u", PASSWORD)
    shown = [str(found), attempt.files.spec.read_text(), repr(attempt), repr(access)]
    assert [text for text in shown if "hunter2" in text] == []
    # Spark's pages and events, as for the catalog's secrets.
    hidden = sorted(name for name in settings if "hunter2" in settings[name])
    assert hidden == ["spark.lake.kafka.shop.secrets", "spark.lake.registry.schemas.password"]
    assert [name for name in hidden if not re.search(REDACTION_REGEX, name)] == []
    assert KafkaAccess.from_settings("other", settings) is None
    assert RegistryAccess.from_settings("other", settings) is None


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "https://h/apis/ccompat/v7", "port": 8443}, "https://h:8443/apis/ccompat/v7"),
        ({"host": "https://h:9000/", "port": 8443}, "https://h:9000"),
        ({"host": "h", "schema": "https", "port": 8081}, "https://h:8081"),
        ({"host": "http://[::1]", "port": 8081}, "http://[::1]:8081"),
        ({"host": "h"}, "http://h"),
    ],
)
def test_the_port_of_a_registry_stands_before_its_path(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], url: str
) -> None:
    given(monkeypatch, "schemas", conn_type="http", **fields)
    assert registry_access("schemas").url == url


def test_names_of_librdkafka_become_those_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {**SERVERS, "security.protocol": "SSL", "ssl.ca.location": "/ca.pem", "ssl.certificate.pem": "cert"}
    given(monkeypatch, "k", conn_type="kafka", extra={**extra, "ssl.key.pem": PEM, "ssl.key.password": "hunter2"})
    access = kafka_access("k")
    assert access.properties == {
        **SERVERS,
        "security.protocol": "SSL",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "cert",
        "ssl.keystore.type": "PEM",
    }
    assert access.secrets == {"ssl.keystore.key": PEM, "ssl.key.password": "hunter2"}


@pytest.mark.parametrize(
    ("given_servers", "servers"),
    [
        ("broker", "broker:9092"),
        ("a:9093, b", "a:9093,b:9092"),
        ("SASL_SSL://a:9093,plaintext://b,", "a:9093,b:9092"),
        ("[::1],[fe80::1]:9094", "[::1]:9092,[fe80::1]:9094"),
    ],
)
def test_brokers_have_the_default_port_of_librdkafka(
    monkeypatch: pytest.MonkeyPatch, given_servers: str, servers: str
) -> None:
    given(monkeypatch, "k", conn_type="kafka", extra={"bootstrap.servers": given_servers})
    assert kafka_access("k").servers == servers


@pytest.mark.parametrize(("given_value", "java"), [("none", ""), ("None", ""), ("https", "https"), (None, None)])
def test_names_of_brokers_are_checked_as_librdkafka_would(
    monkeypatch: pytest.MonkeyPatch, given_value: str | None, java: str | None
) -> None:
    check = "ssl.endpoint.identification.algorithm"
    given(monkeypatch, "k", conn_type="kafka", extra={**SERVERS, "security.protocol": "ssl", check: given_value})
    assert kafka_access("k").properties.get(check) == java


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"conn_type": "postgres"}, "its type is 'postgres'; KafkaTopic takes one such as"),
        ({"extra": {}}, "it needs bootstrap.servers"),
        ({"extra": {"bootstrap.servers": " , "}}, "it needs bootstrap.servers"),
        ({"extra": {**SERVERS, "sasl.user": "u"}}, "'sasl.user' is not understood .* did you mean 'sasl.username'"),
        ({"extra": {**SERVERS, "error_cb": "m.f"}}, "'error_cb' is not understood"),
        ({"extra": {"bootstrap.servers": ["a:9092"]}}, "'bootstrap.servers' is a JSON list; give a text"),
        ({"extra": {**SASL, "sasl.password": {"a": "hunter2"}}}, "'sasl.password' is a JSON dict; give a text"),
        ({"extra": {**SERVERS, "security.protocol": "TLS"}}, "must be one of PLAINTEXT, SSL"),
        ({"extra": {**SASL, "sasl.mechanisms": "GSSAPI"}}, "others are not read yet, got 'GSSAPI'"),
        ({"extra": SASL}, "needs sasl.username and sasl.password"),
        ({"extra": {**SERVERS, "sasl.username": "u"}}, "no meaning with security.protocol 'PLAINTEXT'"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_before_spark(
    context: Context, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], says: str
) -> None:
    given(monkeypatch, "shop", **{"conn_type": "kafka", **fields})
    job = LakeAppendOperator(task_id="t", table="shop.orders", source=KafkaTopic("shop", "o", schema="id INT"))
    with pytest.raises(InvalidConnectionError, match=says) as caught:
        job.build_spec(context)
    assert "hunter2" not in str(caught.value)


def test_a_connection_that_is_missing_is_told_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConnectionError, match=r'does not exist; create it.*"conn_type": "kafka"'):
        kafka_access("none")
    with pytest.raises(InvalidConnectionError, match=r'does not exist; create it.*"conn_type": "http"'):
        registry_access("none")
    given(monkeypatch, "f", conn_type="http", host="file:///etc")
    with pytest.raises(InvalidConnectionError, match="asked by http or https"):
        registry_access("f")
    for address in ("https://u:hunter2@r", "u@r:8081", "http://r:hunter2@:x"):
        given(monkeypatch, "u", conn_type="http", host=address)
        with pytest.raises(InvalidConnectionError, match=r"its host has a user|its host is no address") as caught:
            registry_access("u")
        assert "hunter2" not in str(caught.value)
    for address in ("https://r?key=hunter2", "https://r/api#hunter2"):
        given(monkeypatch, "q", conn_type="http", host=address)
        with pytest.raises(InvalidConnectionError, match=r"something behind '\?' or '#'") as caught:
            registry_access("q")
        assert "hunter2" not in str(caught.value)
    given(monkeypatch, "x", conn_type="http", host="r", extra={"verify": False, "Authorization": "hunter2"})
    with pytest.raises(InvalidConnectionError, match="take Authorization, verify out of its extra") as caught:
        registry_access("x")
    assert "hunter2" not in str(caught.value)
    given(monkeypatch, "r", conn_type="kafka", host="r")
    with pytest.raises(InvalidConnectionError, match="a registry is a connection of type http"):
        registry_access("r")
