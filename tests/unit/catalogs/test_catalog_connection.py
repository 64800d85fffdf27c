"""The connection's own fields: what is read, what is refused, and with which words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.catalogs.secret_properties import REDACTION_REGEX
from airflow_lake_provider.contracts.errors import InvalidConnectionError

SQLITE = {"host": "sqlite:////lake/catalog.db", "extra": {"type": "sql", "warehouse": "/lake/wh"}}
POSTGRESQL = {
    "host": "postgresql+psycopg2://db.example.com:5432/lake",
    "login": "lake user",
    "password": "p@ss/word:1",
    "extra": {"type": "sql", "warehouse": "s3://bucket/wh"},
}
REST = {"host": "https://catalog.example.com/api/", "extra": {"warehouse": "prod"}}
HIVE = {"host": "thrift://hms-1:9083,thrift://hms-2:9083", "extra": {"type": "hive", "warehouse": "hdfs://nn:8020/wh"}}
RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"
GLUE = {"extra": {"type": "glue", "warehouse": "s3://bucket/wh", "glue.region": "eu-west-1"}}


def connection(fields: dict[str, Any], extra: dict[str, Any] | None = None, **changes: Any) -> CatalogConnection:
    merged = {**fields, **changes, "extra": {**fields.get("extra", {}), **(extra or {})}}
    return CatalogConnection.from_fields(conn_id="lake", **merged)


def spark(found: CatalogConnection) -> dict[str, str]:
    prefix = f"spark.sql.catalog.{found.catalog_name}."
    return {key.removeprefix(prefix): value for key, value in found.spark_settings().items() if key.startswith(prefix)}


def test_the_connection_id_names_the_catalog_unless_an_extra_does() -> None:
    assert connection(SQLITE).catalog_name == "lake"
    assert connection(SQLITE, {"catalog_name": "prod"}).catalog_name == "prod"
    assert connection(SQLITE).asset_authority == "lake"
    assert connection(SQLITE, {"asset_authority": "lake.prod"}).asset_authority == "lake.prod"


def test_sqlite_is_one_file_on_both_sides() -> None:
    found = connection(SQLITE)
    assert found.pyiceberg_properties() == {
        "type": "sql",
        "uri": "sqlite:////lake/catalog.db?timeout=60",
        "warehouse": "file:///lake/wh",
    }
    expected = {
        "type": "jdbc",
        "uri": "jdbc:sqlite:/lake/catalog.db?busy_timeout=60000&journal_mode=WAL",
        "warehouse": "file:///lake/wh",
        "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        "jdbc.schema-version": "V1",
    }
    assert expected.items() <= spark(found).items()


@pytest.mark.parametrize(
    ("fields", "uri", "warehouse"),
    [
        (SQLITE, "SQLITE:////lake/catalog.db", "FILE:///lake/wh"),
        (POSTGRESQL, "PostgreSQL+psycopg2://db.example.com:5432/lake", "S3://bucket/wh"),
        (SQLITE, "SQLITE:////lake/catalog.db", "File:/lake/wh"),
        (HIVE, "THRIFT://hms-1:9083,thrift://hms-2:9083", "HDFS://nn:8020/wh"),
        (HIVE, "thrift://hms-1:9083,THRIFT://hms-2:9083", "HDFS://nn:8020/wh"),
        (REST, "HTTPS://catalog.example.com/api/", "prod"),
    ],
)
def test_a_scheme_in_capitals_is_the_same_scheme(fields: dict[str, Any], uri: str, warehouse: str) -> None:
    capitals, plain = connection(fields, {"warehouse": warehouse}, host=uri), connection(fields)
    assert capitals.pyiceberg_properties() == plain.pyiceberg_properties()
    assert capitals.spark_settings() == plain.spark_settings()


def test_a_name_that_a_rest_server_gives_its_warehouse_is_left_as_it_is() -> None:
    assert connection(REST, {"warehouse": "S3://bucket/wh"}).warehouse == "S3://bucket/wh"


def test_a_postgresql_password_is_its_own_key_for_spark_and_escaped_in_memory_for_pyiceberg() -> None:
    found = connection(POSTGRESQL)
    assert spark(found)["uri"] == "jdbc:postgresql://db.example.com:5432/lake"
    assert (spark(found)["jdbc.user"], spark(found)["jdbc.password"]) == ("lake user", "p@ss/word:1")
    uri = found.pyiceberg_properties()["uri"]
    assert uri == "postgresql+psycopg2://lake%20user:p%40ss%2Fword%3A1@db.example.com:5432/lake"


def test_sqlalchemy_reads_the_composed_uri_back() -> None:
    from sqlalchemy import make_url

    url = make_url(connection(POSTGRESQL).pyiceberg_properties()["uri"])
    assert (url.username, url.password, url.host, url.database) == (
        "lake user",
        "p@ss/word:1",
        "db.example.com",
        "lake",
    )


def test_postgresql_options_get_the_names_of_the_jdbc_driver() -> None:
    found = connection(POSTGRESQL, host="postgresql://h/lake?sslmode=require&connect_timeout=5")
    assert spark(found)["uri"] == "jdbc:postgresql://h/lake?sslmode=require&connectTimeout=5"


def test_login_and_password_of_a_rest_catalog_become_one_oauth2_credential() -> None:
    found = connection(REST, {"scope": "all", "oauth2-server-uri": "https://id/t"}, login="id", password="s3cr3t-value")
    assert found.pyiceberg_properties()["credential"] == "id:s3cr3t-value"
    assert spark(found)["credential"] == "id:s3cr3t-value"
    assert spark(found)["rest.auth.type"] == "oauth2"
    assert spark(found)["uri"] == "https://catalog.example.com/api"
    assert (spark(found)["scope"], spark(found)["oauth2-server-uri"]) == ("all", "https://id/t")


def test_a_header_may_have_the_letters_of_latin_1_and_a_secret_any() -> None:
    assert spark(connection(REST, {"header.X-Team": "Zürich"}))["header.X-Team"] == "Zürich"
    found = connection(REST, {"oauth2-server-uri": "https://id/t"}, login="id", password="東京€")
    assert found.pyiceberg_properties()["credential"] == spark(found)["credential"] == "id:東京€"


def test_a_client_secret_may_have_a_colon() -> None:
    found = connection(REST, {"oauth2-server-uri": "https://id/t"}, login="id", password="env:a:b")
    assert found.pyiceberg_properties()["credential"] == spark(found)["credential"] == "id:env:a:b"


def test_what_only_spark_gets_may_come_from_its_environment() -> None:
    assert spark(connection(REST, {"spark": {"header.X-Team": "env:TEAM"}}))["header.X-Team"] == "env:TEAM"


def test_a_rest_catalog_signed_for_aws_uses_the_same_keys_and_region_on_both_sides() -> None:
    keys = {"client.access-key-id": "AKIA1", "client.secret-access-key": "very-secret", "client.region": "eu-west-1"}
    found = connection(REST, {"rest.sigv4-enabled": True, "rest.signing-name": "glue", **keys})
    assert found.pyiceberg_properties()["rest.sigv4-enabled"] == "true"
    java = spark(found)
    assert (java["rest.auth.type"], java["rest.auth.sigv4.delegate-auth-type"]) == ("sigv4", "none")
    assert (java["rest.signing-name"], java["rest.signing-region"]) == ("glue", "eu-west-1")
    assert java["rest.access-key-id"] == java["s3.access-key-id"] == "AKIA1"


def test_hive_and_glue_are_the_same_catalog_on_both_sides() -> None:
    hive, glue = connection(HIVE, {"lock-check-min-wait-time": 0.5}), connection(GLUE, {"glue.id": "1234"})
    assert (spark(hive)["type"], spark(hive)["uri"]) == ("hive", HIVE["host"])
    assert spark(hive)["hadoop.iceberg.hive.lock-check-min-wait-ms"] == "500"
    assert hive.pyiceberg_properties()["uri"] == HIVE["host"]
    assert (spark(glue)["type"], spark(glue)["client.region"], spark(glue)["glue.id"]) == ("glue", "eu-west-1", "1234")
    assert "uri" not in spark(glue)


def test_spark_gets_a_complete_session() -> None:
    settings = connection(SQLITE).spark_settings()
    assert settings["spark.sql.catalog.lake"] == "org.apache.iceberg.spark.SparkCatalog"
    assert settings["spark.sql.defaultCatalog"] == "lake"
    assert settings["spark.sql.extensions"].endswith("IcebergSparkSessionExtensions")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (SQLITE, ["iceberg-spark-runtime-4.1_2.13", "sqlite-jdbc"]),
        (POSTGRESQL, ["iceberg-spark-runtime-4.1_2.13", "postgresql", "iceberg-aws-bundle"]),
        (HIVE, ["iceberg-spark-runtime-4.1_2.13"]),
        (GLUE, ["iceberg-spark-runtime-4.1_2.13", "iceberg-aws-bundle"]),
        (REST, ["iceberg-spark-runtime-4.1_2.13"]),
        ({**REST, "extra": {"gcs.project-id": "p"}}, ["iceberg-spark-runtime-4.1_2.13", "iceberg-gcp-bundle"]),
        (
            {**REST, "extra": {"warehouse": "abfss://c@a.dfs.core.windows.net/w"}},
            ["iceberg-spark-runtime-4.1_2.13", "iceberg-azure-bundle"],
        ),
        ({**REST, "extra": {"warehouse": "gs://b/w"}}, ["iceberg-spark-runtime-4.1_2.13", "iceberg-gcp-bundle"]),
        (
            {**REST, "extra": {"spark": {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}}},
            ["iceberg-spark-runtime-4.1_2.13", "iceberg-aws-bundle"],
        ),
        (
            {**HIVE, "extra": {"type": "hive", "s3.region": "eu-west-1", "spark": {"io-impl": RESOLVING}}},
            ["iceberg-spark-runtime-4.1_2.13", "iceberg-aws-bundle"],
        ),
    ],
    ids=["sqlite", "postgresql-s3", "hive", "glue", "rest", "rest-gcs-properties", "azure", "gcs", "io-impl", "scheme"],
)  # fmt: skip
def test_the_catalog_and_its_storage_decide_which_jars_are_needed(fields: dict[str, Any], expected: list[str]) -> None:
    assert [package.split(":")[1] for package in connection(fields).spark_packages()] == expected


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "misspelt": (SQLITE, {"s3.acces-key-id": "x"}, {}, "did you mean 's3.access-key-id'"),
    "java-name": (SQLITE, {"s3.path-style-access": True}, {}, "s3.force-virtual-addressing"),
    "java-only": (SQLITE, {"io-impl": "x.Y"}, {}, '"spark": {'),
    "pyiceberg-only": (SQLITE, {"py-io-impl": "x.Y"}, {}, '"pyiceberg": {'),
    "nested-auth": (REST, {"auth": {"type": "noop"}}, {}, '"pyiceberg": {'),
    "azure-connection-string": (SQLITE, {"adls.connection-string": "x"}, {}, "adls.account-name and adls.account-key"),
    "other-kind": (SQLITE, {"glue.id": "1"}, {}, "belongs to a glue catalog, this one is of type sql"),
    "empty": (SQLITE, {"s3.region": ""}, {}, "'s3.region' is empty"),
    "list": (SQLITE, {"s3.region": ["a"]}, {}, "of type list"),
    "not-boolean": (SQLITE, {"s3.force-virtual-addressing": "maybe"}, {}, "neither true nor false"),
    "not-a-number": (SQLITE, {"s3.connect-timeout": "soon"}, {}, "'s3.connect-timeout' is not understood"),
    "fraction-of-a-page": (REST, {"rest-page-size": 100.0}, {}, "'rest-page-size' is not understood: '100.0'"),
    "page-of-nothing": (REST, {"rest-page-size": 0}, {}, "'rest-page-size' is not understood: a page has at least one"),
    "fraction-of-a-retry": (
        REST,
        {"rest.sigv4-enabled": True, "rest.sigv4.max-retries": "3.0"},
        {},
        "'rest.sigv4.max-retries' is not understood",
    ),
    "fraction-of-a-port": (SQLITE, {"hdfs.port": 9000.5}, {}, "'hdfs.port' is not understood"),
    "not-boolean-for-java": (REST, {"rest.sigv4-enabled": "maybe"}, {}, "'rest.sigv4-enabled' is not understood"),
    "not-boolean-of-a-store": (SQLITE, {"s3.anonymous": "maybe"}, {}, "'s3.anonymous' is not understood"),
    "not-boolean-of-google": (SQLITE, {"gcs.requester-pays": 2}, {}, "'gcs.requester-pays' is not understood"),
    "without-end": (SQLITE, {"s3.connect-timeout": "inf"}, {}, "'inf' is no number of seconds"),
    "negative": (SQLITE, {"s3.request-timeout": -1}, {}, "'-1' is no number of seconds"),
    "beyond-java": (SQLITE, {"s3.request-timeout": 1e9}, {}, "is no number of seconds from 0 to 2147483"),
    "sqlite-timeout": (SQLITE, {}, {"host": "sqlite:////a.db?timeout=soon"}, "option 'timeout' in uri"),
    "sqlite-timeout-without-end": (SQLITE, {}, {"host": "sqlite:////a.db?timeout=inf"}, "'inf' is no number"),
    "sqlite-timeout-of-none": (SQLITE, {}, {"host": "sqlite:////a.db?timeout=nan"}, "'nan' is no number"),
    "unknown-type": (SQLITE, {"type": "sqll"}, {}, "did you mean 'sql'"),
    "type-forgotten": ({"host": "sqlite:////a.db", "extra": {"warehouse": "/w"}}, {}, {}, '"type": "sql"'),
    "host-and-uri-differ": (REST, {"uri": "https://other.example.com"}, {}, "give one of them"),
    "token-and-credential": (REST, {"token": "t", "credential": "a:b"}, {}, "token together with credential"),
    "token-and-login": (
        REST,
        {"token": "t"},
        {"login": "a", "password": "b"},
        "token together with login and password",
    ),
    "credential-without-its-server": (
        REST,
        {"credential": "a:hunter2"},
        {},
        '"oauth2-server-uri": "https://catalog.example.com/api/v1/oauth/tokens"',
    ),
    "login-without-its-server": (
        REST,
        {},
        {"login": "a", "password": "hunter2"},
        "login and password came without the extra 'oauth2-server-uri'",
    ),
    "euro-in-token": (REST, {"token": "hunter2€"}, {}, "'token' has a character that no header can have"),
    "kanji-in-header": (REST, {"header.X-Team": "東京"}, {}, "'header.X-Team' has a character that no header can have"),
    "colon-in-client-id": (
        REST,
        {"oauth2-server-uri": "https://id/t"},
        {"login": "urn:app", "password": "hunter2"},
        "both sides would end the client id at its first ':'",
    ),
    "environment-of-java-for-a-login": (
        REST,
        {"oauth2-server-uri": "https://id/t"},
        {"login": "env", "password": "hunter2"},
        "Spark would read the secret as the name of a variable",
    ),
    "environment-of-java": (REST, {"token": "env:hunter2"}, {}, "'token' begins with 'env:'"),
    "environment-of-java-for-a-store": (REST, {"s3.region": "env:REGION"}, {}, "'s3.region' begins with 'env:'"),
    "environment-of-java-for-the-warehouse": (REST, {"warehouse": "env:WH"}, {}, "'warehouse' begins with 'env:'"),
    "login-alone": (REST, {}, {"login": "a"}, "without password"),
    "password-alone": (POSTGRESQL, {}, {"login": None}, "without login"),
    "blank-behind-password": (POSTGRESQL, {}, {"password": "hunter2 "}, "its password begins or ends with a blank"),
    "tab-before-login": (POSTGRESQL, {}, {"login": "\tu"}, "its login begins or ends with a blank"),
    "credential-elsewhere": (POSTGRESQL, {"credential": "a:b"}, {}, "belongs to a rest catalog"),
    "token-elsewhere": (GLUE, {"token": "t"}, {}, "belongs to a rest catalog"),
    "password-in-uri": (SQLITE, {}, {"host": "postgresql://u:hunter2@h/d"}, "login and password fields"),
    "slash-in-password-in-uri": (SQLITE, {}, {"host": "postgresql://u:hunter2/x@h/d"}, "login and password fields"),
    "hash-in-password-in-uri": (SQLITE, {}, {"host": "postgresql://u:hunter2#x@h/d"}, "login and password fields"),
    "mark-in-password-in-uri": (POSTGRESQL, {}, {"host": "postgresql://u:hunter2?x@h/d"}, "login and password fields"),
    "hash-in-password-of-rest": (REST, {}, {"host": "https://u:hunter2#x@h/api"}, "login and password fields"),
    "mark-in-password-of-hive": (HIVE, {}, {"host": "thrift://u:hunter2?x@h:9083"}, "login and password fields"),
    "password-in-query": (SQLITE, {}, {"host": "postgresql://h/d?password=hunter2"}, "login and password fields"),
    "token-behind-a-hash-of-rest": (REST, {}, {"host": "https://h/api#token=hunter2"}, "login and password fields"),
    "token-behind-a-hash-of-hive": (HIVE, {}, {"host": "thrift://h:9083#Token=hunter2"}, "login and password fields"),
    "hash-of-rest": (REST, {}, {"host": "https://h/api#hunter2"}, "no server gets what is behind it"),
    "hash-of-hive": (HIVE, {}, {"host": "thrift://a:9083,thrift://b:9083#hunter2"}, "no server gets what is behind it"),
    "sqlite-with-login": (SQLITE, {}, {"login": "u", "password": "p"}, "SQLite catalog has no login"),
    "hive-with-login": (HIVE, {}, {"login": "u", "password": "p"}, "takes no login"),
    "sqlite-in-memory": (SQLITE, {}, {"host": "sqlite:///:memory:"}, "sqlite:////absolute/path.db"),
    "sqlite-relative": (SQLITE, {}, {"host": "sqlite:///catalog.db"}, "sqlite:////absolute/path.db"),
    "mysql": (SQLITE, {}, {"host": "mysql://h/d"}, "begins with one of sqlite, postgresql"),
    "postgresql-without-database": (POSTGRESQL, {}, {"host": "postgresql://h"}, "lacks host or database"),
    "postgresql-option": (POSTGRESQL, {}, {"host": "postgresql://h/d?sslmod=require"}, "did you mean 'sslmode'"),
    "thrift-for-rest": (REST, {"type": "rest"}, {"host": "thrift://h:9083"}, "not with 'thrift'"),
    "no-uri": (REST, {}, {"host": None}, "needs its URI"),
    "glue-with-uri": (GLUE, {}, {"host": "https://glue"}, "glue.endpoint"),
    "port": (POSTGRESQL, {}, {"port": 5432}, "write them into the URI"),
    "no-warehouse": ({"host": "sqlite:////a.db", "extra": {"type": "sql"}}, {}, {}, "needs the extra 'warehouse'"),
    "relative-warehouse": (SQLITE, {"warehouse": "wh"}, {}, "neither an absolute path nor a URI"),
    "warehouse-scheme": (SQLITE, {"warehouse": "s4://b/w"}, {}, "has scheme 's4'"),
    "keys-in-warehouse": (SQLITE, {"warehouse": "s3://AKIA:hunter2@b/w"}, {}, "before '@'"),
    "slash-in-keys-in-warehouse": (SQLITE, {"warehouse": "s3a://AKIA:hunter2/x@b/w"}, {}, "before '@'"),
    "keys-in-container": (SQLITE, {"warehouse": "abfss://c:hunter2@a.dfs.core.windows.net/w"}, {}, "before '@'"),
    "token-in-warehouse": (
        SQLITE,
        {"warehouse": "abfss://c@a.dfs.core.windows.net/w?sv=1&sig=hunter2"},
        {},
        "token behind",
    ),
    "hash-in-warehouse": (SQLITE, {"warehouse": "/wh#1"}, {}, "which PyIceberg leaves out"),
    "mark-in-warehouse": (SQLITE, {"warehouse": "file:///wh?1"}, {}, "which PyIceberg leaves out"),
    "hash-in-bucket": (GLUE, {"warehouse": "s3://b/wh#1"}, {}, "which PyIceberg leaves out"),
    "tab-in-warehouse": (SQLITE, {"warehouse": "/w\th"}, {}, "which PyIceberg leaves out"),
    "catalog-name": (SQLITE, {"catalog_name": "my.lake"}, {}, "catalog name 'my.lake'"),
    "session-catalog": (SQLITE, {"catalog_name": "spark_catalog"}, {}, "other than spark_catalog"),
    "session-catalog-in-another-case": (SQLITE, {"catalog_name": "Spark_Catalog"}, {}, "other than spark_catalog"),
    "authority": (SQLITE, {"asset_authority": "user@host"}, {}, "does not fit a URI"),
    "table-format": (SQLITE, {"table_format": "delta"}, {}, "expected iceberg"),
    "spark-not-object": (SQLITE, {"spark": "x"}, {}, "an object of properties, got str"),
    "spark-session-option": (SQLITE, {"spark": {"spark.executor.memory": "1g"}}, {}, "operator's conf"),
    "retries-not-a-number": (GLUE, {"pyiceberg": {"glue.max-retries": "few"}}, {}, "give a whole number"),
    "two-catalogs": (SQLITE, {"pyiceberg": {"warehouse": "/other"}}, {}, "two catalogs of one"),
    "two-catalogs-in-another-case": (SQLITE, {"spark": {"Warehouse": "/other"}}, {}, "two catalogs of one"),
    "signing-without-sigv4": (REST, {"rest.signing-name": "glue"}, {}, "rest.sigv4-enabled"),
}


@pytest.mark.parametrize(("fields", "extra", "changes", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_connection_that_makes_no_sense_is_refused_in_words(
    fields: dict[str, Any], extra: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidConnectionError, match=re.escape(said)) as refusal:
        connection(fields, extra, **changes)
    assert str(refusal.value).startswith("connection 'lake': ")
    assert "hunter2" not in str(refusal.value)


def test_one_sided_properties_reach_only_their_side() -> None:
    one_sided = {"spark": {"unique-table-location": True}, "pyiceberg": {"echo": True, "auth": {"type": "noop"}}}
    found = connection(SQLITE, one_sided)
    assert spark(found)["unique-table-location"] == "true"
    assert "echo" not in spark(found)
    assert "unique-table-location" not in found.pyiceberg_properties()
    assert found.pyiceberg_properties()["echo"] == "true"
    assert found.pyiceberg_properties()["auth"] == {"type": "noop"}


def test_pyiceberg_gets_a_number_of_retries_as_a_number() -> None:
    for given in (3, "3"):
        found = connection(GLUE, {"pyiceberg": {"glue.max-retries": given}})
        assert found.pyiceberg_properties()["glue.max-retries"] == 3


def test_every_secret_is_named_for_masking_and_none_is_in_the_repr() -> None:
    found = connection(
        POSTGRESQL,
        {
            "s3.access-key-id": "AKIAEXAMPLE",
            "s3.secret-access-key": "s3-hidden",
            "spark": {"jdbc.sslpassword": "key-hidden"},
            "pyiceberg": {"auth": {"type": "basic", "basic": {"username": "u", "password": "nested-hidden"}}},
        },
    )
    hidden = {
        "p@ss/word:1",
        "p%40ss%2Fword%3A1",
        "p%40ss/word%3A1",
        "AKIAEXAMPLE",
        "s3-hidden",
        "key-hidden",
        "nested-hidden",
    }
    assert set(found.secrets()) == hidden
    assert not [secret for secret in hidden if secret in repr(found)]


def test_a_credential_is_masked_whole_and_by_its_secret_half() -> None:
    found = connection(REST, {"oauth2-server-uri": "https://id/t"}, login="client", password="half-hidden")
    assert set(found.secrets()) == {"client:half-hidden", "client%3Ahalf-hidden", "half-hidden"}


def test_a_password_inside_a_proxys_address_is_masked() -> None:
    assert connection(SQLITE, {"s3.proxy-uri": "http://user:proxy-hidden@proxy:3128"}).secrets() == ("proxy-hidden",)


@pytest.mark.parametrize("fields", [SQLITE, POSTGRESQL, REST, HIVE, GLUE], ids=["sqlite", "pg", "rest", "hive", "glue"])
def test_spark_pages_hide_what_the_connection_hides(fields: dict[str, Any]) -> None:
    stores = {
        "s3.access-key-id": "hidden-1",
        "s3.secret-access-key": "hidden-2",
        "s3.session-token": "hidden-3",
        "gcs.oauth2.token": "hidden-4",
        "adls.account-name": "account",
        "adls.account-key": "hidden-5",
        "adls.sas-token": "hidden-6",
        **({"header.Authorization": "hidden-7", "token": "hidden-8"} if fields is REST else {}),
    }
    settings = connection(fields, stores).spark_settings()
    shown = {key for key in settings if not re.search(REDACTION_REGEX, key)}
    assert not [
        key for key in shown if "hidden" in settings[key] or "p@ss" in settings[key] or "lake user" in settings[key]
    ]
    assert not [key for key in shown if key.endswith(".uri")]


def test_hiding_does_not_swallow_settings_people_need_to_see() -> None:
    for text in ("spark.sql.catalog.lake.warehouse", "java.base/sun.security.action", "spark.executor.memory"):
        assert not re.search(REDACTION_REGEX, text)
