"""Warehouse of a catalog, and the file access that Iceberg-Java needs there."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from airflow_lake_provider.catalogs.connection_errors import refused
from airflow_lake_provider.catalogs.secret_properties import is_secret
from airflow_lake_provider.contracts.argument_validation import nearest

_S3_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_GCS_IO = "org.apache.iceberg.gcp.gcs.GCSFileIO"
_ADLS_IO = "org.apache.iceberg.azure.adlsv2.ADLSFileIO"
_HADOOP_IO = "org.apache.iceberg.hadoop.HadoopFileIO"
# The same choice as Iceberg's ResolvingFileIO makes by scheme.
FILE_IO = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _S3_IO),
    "gs": _GCS_IO,
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _ADLS_IO),
    **dict.fromkeys(("file", "hdfs", "viewfs"), _HADOOP_IO),
}
AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# What urllib leaves out of a path, with all behind it or alone.
_CUT = re.compile(r"[#?\t\r\n]")
_NO_PORT = re.compile(r":(?!\d*$)(?!.*\])", re.ASCII)


def with_lower_scheme(uri: str) -> str:
    """Return a URI with its scheme in lower case, as RFC 3986 compares it; other texts as they are.

    SQLAlchemy finds its dialects by the scheme as it stands, and Hadoop its file systems.
    """
    scheme, sign, rest = uri.partition("://")
    return f"{scheme.lower()}{sign}{rest}" if sign else uri


def scheme_of(warehouse: str | None) -> str | None:
    """Return the scheme in lower case, or None for a name that only a REST server understands.

    :param warehouse: as returned by `normalised`.
    """
    match = _URI.fullmatch(warehouse or "")
    return match.group(1).lower() if match else None


def authority_of(warehouse: str | None) -> str:
    """Return bucket, ``container@account`` or host; empty when there is none.

    :param warehouse: as returned by `normalised`.
    """
    match = _URI.fullmatch(warehouse or "")
    return match.group(2).split("/", 1)[0] if match else ""


def holds_keys(location: str) -> bool:
    """Return whether a URI has a key or a password before its host.

    :param location: with a scheme; of others there is none.
    """
    authority = authority_of(location)
    # An unescaped '/' in a key ends the authority early, and leaves no port there.
    return ":" in authority.rpartition("@")[0] or _NO_PORT.search(authority) is not None


def normalised(conn_id: str, kind: str, warehouse: str | None) -> str | None:
    """Return the warehouse so that both sides see the same place: a bare absolute path becomes ``file://``.

    Spark would read a bare path on its cluster's default file system, PyIceberg on the local disk.

    :param conn_id: named in the error.
    :param kind: catalog kind; a REST server may know the warehouse by name.
    :param warehouse: as given.
    :raises InvalidConnectionError: when it is missing, relative, of an unknown scheme, holds credentials, or is a place
        that one side reads otherwise.
    """
    if warehouse is None:
        if kind in ("sql", "glue"):
            raise refused(conn_id, f"a {kind} catalog needs the extra 'warehouse', for example s3://bucket/warehouse")
        return None
    path = re.fullmatch(r"(?i:file:)?(/(?!/).*)", warehouse, re.DOTALL)
    if path:
        return _without_cut(conn_id, f"file://{path.group(1)}")
    scheme = scheme_of(warehouse)
    if scheme is None:
        if kind == "rest":
            return warehouse
        raise refused(
            conn_id, f"warehouse {warehouse!r} is neither an absolute path nor a URI such as s3://bucket/path"
        )
    if scheme not in FILE_IO:
        raise refused(
            conn_id, f"warehouse has scheme {scheme!r}, expected one of {', '.join(FILE_IO)}{nearest(scheme, FILE_IO)}"
        )
    # The container of Azure stands before its host, too.
    has_user = "@" in authority_of(warehouse) and scheme not in AZURE_SCHEMES
    if has_user or holds_keys(warehouse):
        raise refused(
            conn_id, "warehouse holds a user or keys before '@'; write them as properties, for example s3.access-key-id"
        )
    if any(is_secret(name) for name, _ in parse_qsl(warehouse.partition("?")[2])):
        raise refused(
            conn_id,
            "warehouse holds a token behind '?', which no file system reads there and events would show; write it as a "
            "property, for example adls.sas-token",
        )
    return warehouse if kind == "rest" else _without_cut(conn_id, with_lower_scheme(warehouse))


def _without_cut(conn_id: str, warehouse: str) -> str:
    """Return a warehouse that PyIceberg reads whole: it cuts paths as those of the web, and Iceberg-Java does not."""
    if cut := _CUT.search(warehouse):
        raise refused(
            conn_id,
            f"warehouse {warehouse!r} has {cut.group()!r}, which PyIceberg leaves out with what is behind it, and "
            "Spark does not: they would keep the tables in two places; name a folder without it",
        )
    return warehouse
