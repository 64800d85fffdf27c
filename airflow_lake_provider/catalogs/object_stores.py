"""Properties of object stores that Iceberg-Java writes differently from PyIceberg, several at a time."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.property_translation import truth
from airflow_lake_provider.catalogs.warehouse import AZURE_SCHEMES, authority_of, scheme_of

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
