"""The connection as Spark reads it: ``spark.sql.catalog.<name>.*``, its object store and the packages that it takes."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_lake_provider.catalogs import database_uri
from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.connection_fields import Fields
from airflow_lake_provider.catalogs.property_translation import TRANSLATED, truth
from airflow_lake_provider.catalogs.secret_properties import REDACTION_REGEX
from airflow_lake_provider.catalogs.warehouse import AZURE_SCHEMES, FILE_IO, authority_of, scheme_of
from airflow_lake_provider.contracts.errors import UnsupportedError

_TYPES = {"rest": "rest", "sql": "jdbc", "hive": "hive", "glue": "glue"}


def catalog_properties(fields: Fields, warehouse: str | None) -> dict[str, str]:
    """Return Iceberg-Java's catalog properties, the extra ``spark`` included.

    :param fields: the connection's fields.
    :param warehouse: as returned by `warehouse.normalised`.
    :raises InvalidConnectionError: when a value cannot be translated or two properties become one with two values.
    """
    properties = {"type": _TYPES[fields.kind]}
    if warehouse:
        properties["warehouse"] = warehouse
    if scheme := scheme_of(warehouse):
        properties["io-impl"] = FILE_IO[scheme]
    if fields.uri:
        properties["uri"] = database_uri.jdbc_uri(fields.uri) if fields.kind == "sql" else fields.uri
    properties |= _database_login(fields) if fields.kind == "sql" else {}
    properties |= _renamed(fields)
    properties |= store_settings(fields.conn_id, fields.kind, warehouse, fields.properties)
    properties |= _rest_authentication(fields) if fields.kind == "rest" else {}
    return properties | fields.spark_only


def session_settings(catalog_name: str, properties: dict[str, str]) -> dict[str, str]:
    """Return the settings of a Spark session whose default catalog this is.

    :param catalog_name: name of the catalog in Spark.
    :param properties: as returned by `catalog_properties`.
    """
    prefix = f"spark.sql.catalog.{catalog_name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        # A cached table would hide other writers' commits for half a minute from a job that decides by them.
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{name}": value for name, value in properties.items()},
        "spark.sql.defaultCatalog": catalog_name,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.redaction.regex": REDACTION_REGEX,
    }


def _renamed(fields: Fields) -> dict[str, str]:
    settings: dict[str, str] = {}
    origin: dict[str, str] = {}
    for name, value in fields.properties.items():
        translation = TRANSLATED.get(name)
        java = translation.java if translation else name
        converted = _converted(fields.conn_id, name, value)
        if not java:
            continue
        if settings.setdefault(java, converted) != converted:
            raise refused(
                fields.conn_id,
                f"{origin[java]!r} and {name!r} differ, and Iceberg-Java has {java} for both; give one value",
            )
        origin.setdefault(java, name)
    return settings


def _converted(conn_id: str, name: str, value: str) -> str:
    translation = TRANSLATED.get(name)
    if not translation:
        return value
    try:
        return translation.convert(value)
    except ValueError as error:
        raise refused(conn_id, f"property {name!r} is not understood: {error}") from error


def _database_login(fields: Fields) -> dict[str, str]:
    login = {"jdbc.user": fields.login, "jdbc.password": fields.password}
    # V1 is what PyIceberg creates; V0 would hide views and make Iceberg-Java warn at each start.
    return {"jdbc.schema-version": "V1", **{name: value for name, value in login.items() if value}}


def _rest_authentication(fields: Fields) -> dict[str, str]:
    by_token = "token" in fields.properties or "credential" in fields.properties
    if not truth(fields.properties.get("rest.sigv4-enabled", "false")):
        return {"rest.auth.type": "oauth2"} if by_token else {}
    settings = {"rest.auth.type": "sigv4", "rest.auth.sigv4.delegate-auth-type": "oauth2" if by_token else "none"}
    region = fields.properties.get("client.region")
    if region and "rest.signing-region" not in fields.properties:
        # PyIceberg signs for client.region then; Iceberg-Java would ask its environment.
        settings["rest.signing-region"] = region
    return settings


_ASSUME_ROLE_FACTORY = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
_ANONYMOUS = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
_AWS_KEYS = ("access-key-id", "secret-access-key", "session-token")


def store_settings(conn_id: str, kind: str, warehouse: str | None, properties: Mapping[str, str]) -> dict[str, str]:
    """Return Iceberg-Java's properties for what cannot be renamed one by one.

    :param conn_id: named in errors.
    :param kind: catalog kind; Glue shares its AWS client settings with S3.
    :param warehouse: for the host of an Azure account.
    :param properties: PyIceberg properties of the connection.
    :raises InvalidConnectionError: when keys, role, account or requester are incomplete or contradict each other.
    """
    return {
        **_aws_keys(conn_id, kind, properties),
        **_aws_identity(conn_id, kind, properties),
        **_path_style(properties),
        **_gcs_requester(conn_id, properties),
        **_azure_account(conn_id, warehouse, properties),
        **_hdfs_address(conn_id, warehouse, properties),
    }


def _aws_keys(conn_id: str, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
    keys: dict[str, dict[str, str]] = {}
    for owner in ("client", "s3"):
        keys[owner] = {name: properties[f"{owner}.{name}"] for name in _AWS_KEYS if f"{owner}.{name}" in properties}
        missing = [name for name in _AWS_KEYS[:2] if name not in keys[owner]]
        if keys[owner] and missing:
            raise refused(conn_id, f"{owner}.{next(iter(keys[owner]))} is given without {owner}.{missing[0]}")
    if keys["client"] and kind == "glue":
        raise refused(
            conn_id,
            "Iceberg-Java's Glue client takes no keys from properties; use a role or AWS_ACCESS_KEY_ID where both "
            "sides run, and s3.access-key-id for the files alone",
        )
    settings = {f"s3.{name}": value for name, value in (keys["s3"] or keys["client"]).items()}
    if truth(properties.get("rest.sigv4-enabled", "false")):
        settings |= {f"rest.{name}": value for name, value in keys["client"].items()}
    return settings


def _aws_identity(conn_id: str, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
    role = properties.get("s3.role-arn") or properties.get("client.role-arn")
    anonymous = truth(properties.get("s3.anonymous", "false"))
    has_keys = bool({"s3.access-key-id", "client.access-key-id"} & properties.keys())
    if role and (has_keys or anonymous):
        raise refused(conn_id, "s3.role-arn contradicts access keys and s3.anonymous; give one of the three")
    if anonymous and has_keys:
        raise refused(conn_id, "s3.anonymous contradicts access keys; give one of them")
    signed_catalog = kind == "glue" or truth(properties.get("rest.sigv4-enabled", "false"))
    if (role or anonymous) and signed_catalog:
        raise refused(
            conn_id,
            "s3.role-arn and s3.anonymous would change the identity towards the catalog in Spark only, as its AWS "
            "clients share one; put them in 'pyiceberg', and client.factory or client.credentials-provider in 'spark'",
        )
    if anonymous:
        return {"client.credentials-provider": _ANONYMOUS}
    return _assumed_role(conn_id, role, properties) if role else {}


def _assumed_role(conn_id: str, role: str, properties: Mapping[str, str]) -> dict[str, str]:
    region = properties.get("s3.region") or properties.get("client.region")
    if not region:
        raise refused(conn_id, "s3.role-arn needs s3.region: Iceberg-Java asks the role of that region's service")
    settings = {
        "client.factory": _ASSUME_ROLE_FACTORY,
        "client.assume-role.arn": role,
        "client.assume-role.region": region,
    }
    session = properties.get("s3.role-session-name") or properties.get("client.role-session-name")
    return {**settings, "client.assume-role.session-name": session} if session else settings


def _path_style(properties: Mapping[str, str]) -> dict[str, str]:
    # PyArrow asks a store of its own endpoint by path unless told otherwise; Iceberg-Java would ask by host name.
    by_default = "s3.endpoint" in properties and "s3.force-virtual-addressing" not in properties
    return {"s3.path-style-access": "true"} if by_default else {}


def _gcs_requester(conn_id: str, properties: Mapping[str, str]) -> dict[str, str]:
    if not truth(properties.get("gcs.requester-pays", "false")):
        return {}
    if "gcs.project-id" not in properties:
        raise refused(conn_id, "gcs.requester-pays needs gcs.project-id, the project that pays")
    return {"gcs.user-project": properties["gcs.project-id"]}


def _azure_account(conn_id: str, warehouse: str | None, properties: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    host = authority_of(warehouse).rpartition("@")[2] if scheme_of(warehouse) in AZURE_SCHEMES else ""
    host = host or properties.get("adls.account-host", "")
    account = properties.get("adls.account-name") or host.split(".")[0]
    if host and account != host.split(".")[0]:
        raise refused(conn_id, f"adls.account-name is {account!r}, the warehouse or adls.account-host says {host!r}")
    if key := properties.get("adls.account-key"):
        if not account:
            raise refused(conn_id, "adls.account-key needs adls.account-name")
        settings |= {"adls.auth.shared-key.account.name": account, "adls.auth.shared-key.account.key": key}
    if sas := properties.get("adls.sas-token"):
        if not account:
            raise refused(
                conn_id, "adls.sas-token needs adls.account-name, or a warehouse abfss://container@account-host/path"
            )
        settings[f"adls.sas-token.{host or f'{account}.dfs.core.windows.net'}"] = sas
    return settings


def _hdfs_address(conn_id: str, warehouse: str | None, properties: Mapping[str, str]) -> dict[str, str]:
    host, port = properties.get("hdfs.host"), properties.get("hdfs.port")
    if port and not host:
        raise refused(conn_id, "hdfs.port is given without hdfs.host")
    if not host:
        return {}
    address = f"{host}:{port}" if port else host
    named = authority_of(warehouse) if scheme_of(warehouse) == "hdfs" else ""
    if named and named != address:
        raise refused(conn_id, f"hdfs.host and hdfs.port say {address!r}, the warehouse says {named!r}")
    return {"hadoop.fs.defaultFS": f"hdfs://{address}"}


ICEBERG_VERSION = "1.12.0"
# Spark and its Scala, those that the tests ran on; the first is the Spark that comes with the package.
# In the name of each of its packages and jars.
RUNTIME_NAME = "iceberg-spark-runtime"
RUNTIMES = {
    release: f"org.apache.iceberg:{RUNTIME_NAME}-{'_'.join(release)}:{ICEBERG_VERSION}"
    for release in (("4.1", "2.13"), ("3.5", "2.12"))
}
SPARK_RUNTIME = RUNTIMES["4.1", "2.13"]
SQLITE_DRIVER = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRESQL_DRIVER = "org.postgresql:postgresql:42.7.8"
# What Spark takes where nothing is said, too.
_RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"
_BUNDLES = {
    "aws": f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
    "gcp": f"org.apache.iceberg:iceberg-gcp-bundle:{ICEBERG_VERSION}",
    "azure": f"org.apache.iceberg:iceberg-azure-bundle:{ICEBERG_VERSION}",
}
_CLOUD_OF_PREFIX = {"s3.": "aws", "client.": "aws", "glue.": "aws", "gcs.": "gcp", "adls.": "azure"}


def runtime_for(spark: str, scala: str) -> str:
    """Return the coordinate of Iceberg's runtime for a Spark.

    :param spark: ``3.5``; ``scala``: ``2.12``.
    :raises UnsupportedError: jobs do not run on it.
    """
    runtime = RUNTIMES.get((spark, scala))
    if runtime is None:
        supported = " or ".join(f"Spark {version} with Scala {of}" for version, of in RUNTIMES)
        raise UnsupportedError(
            f"jobs run on {supported}, and the worker submits with Spark {spark} and Scala {scala}; set SPARK_HOME or "
            "the operator's spark_binary to one of them, or bring jars of your own with [lake] spark_jars"
        )
    return runtime


def packages(properties: Mapping[str, str], runtime: str = SPARK_RUNTIME) -> tuple[str, ...]:
    """Return Maven coordinates for ``spark.jars.packages``.

    :param properties: Iceberg-Java catalog properties, as `spark_catalog_properties.catalog_properties` returns them.
    :param runtime: coordinate of Iceberg's runtime, of :func:`runtime_for`.
    """
    file_io = properties.get("io-impl", _RESOLVING)
    clouds = {cloud for cloud in _BUNDLES if f".iceberg.{cloud}." in file_io}
    if file_io == _RESOLVING:
        # A REST server knows the warehouse by name; the store's properties tell what it is.
        clouds |= {
            cloud for prefix, cloud in _CLOUD_OF_PREFIX.items() if any(name.startswith(prefix) for name in properties)
        }
    if properties.get("type") == "glue" or properties.get("rest.auth.type") == "sigv4":
        clouds.add("aws")
    return (runtime, *_driver(properties.get("uri", "")), *(_BUNDLES[cloud] for cloud in sorted(clouds)))


def _driver(uri: str) -> tuple[str, ...]:
    drivers = {"jdbc:sqlite:": SQLITE_DRIVER, "jdbc:postgresql:": POSTGRESQL_DRIVER}
    return tuple(driver for prefix, driver in drivers.items() if uri.startswith(prefix))
