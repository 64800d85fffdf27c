"""Arguments of ``pyarrow.fs.S3FileSystem`` that open what Iceberg's ``S3FileIO`` opens, by the same keys.

What configures that client in another way is refused with an ``UnsupportedError``: Spark rewrites the table then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles, is_local
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.trusted_table import described_io, vended_properties

_S3_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_RESOLVING_IO = "org.apache.iceberg.io.ResolvingFileIO"
# ``S3FileIO`` opens all others by the properties that no prefix has.
_ROOT = "s3"
_PREFIXES = ("s3.", "client.", "http-client.", "glue.lakeformation-")
_KEYS = {"s3.access-key-id": "access_key", "s3.secret-access-key": "secret_key", "s3.session-token": "session_token"}
_FOLLOWED = {*_KEYS, "s3.endpoint", "s3.path-style-access", "client.region"}
_REFRESHED_BY = "client.refresh-credentials-endpoint"
# They say how quickly or how often Java asks, or how its driver deletes, or they are names of PyIceberg's.
_WITHOUT_EFFECT = {
    *(_REFRESHED_BY, "client.refresh-credentials-enabled", "client.legacy-md5-plugin-enabled"),
    *("s3.session-token-expires-at-ms", "s3.staging-dir", "s3.preload-client-enabled", "s3.crt.enabled"),
    *("s3.crt.max-concurrency", "s3.checksum-enabled", "s3.chunked-encoding-enabled", "s3.delete.batch-size"),
    *("s3.delete.num-threads", "s3.cross-region-access-enabled", "s3.region", "s3.connect-timeout"),
    *("s3.request-timeout", "s3.force-virtual-addressing", "s3.resolve-region", "s3.signer.uri", "s3.signer.endpoint"),
    "http-client.type",
}
_PREFIXES_WITHOUT_EFFECT = (
    *("s3.multipart.", "s3.retry.", "s3.analytics-accelerator.", "http-client.apache.", "http-client.urlconnection."),
)
# Of a tag or a bucket.
_WITH_NAMES_OF_THEIR_OWN = ("s3.write.tags.", "s3.delete.tags.", "s3.access-points.")
_OFF = {("s3.sse.type", "none"), ("s3.delete-enabled", "true")}


def table_files(table: IcebergTable) -> TableFiles:
    """Return how workers open the files of a table, with the credentials that its ``FileIO`` has now.

    :raises UnsupportedError: naming what workers do not open or follow.
    """
    location = str(table.java.locationProvider().newDataLocation("a"))
    if is_local(location):
        return TableFiles()
    io = table.java.io()
    kind, properties = described_io(table.spark, io)
    opener = str(io.ioClass(location).getName()) if kind == _RESOLVING_IO else kind
    scheme = location.partition(":")[0]
    if opener != _S3_IO:
        raise UnsupportedError(f"files of {scheme}: are opened by {opener.rpartition('.')[2]}, which workers have not")
    arguments = {_ROOT: s3_arguments(properties)}
    for prefix, vended in vended_properties(table.spark, io, kind):
        if prefix.startswith(_ROOT):
            arguments[prefix] = s3_arguments({**properties, **vended})
    files = TableFiles(arguments)
    if not files.opens(location):
        raise UnsupportedError(f"files of {scheme}: have locations that workers do not open")
    return files


def s3_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments of ``S3FileSystem``; without keys, each executor asks the default chain of its environment.

    :param properties: of an ``S3FileIO``.
    :raises UnsupportedError: naming one that ``pyarrow`` does not follow.
    """
    for name, value in properties.items():
        if name.startswith(_PREFIXES) and not _is_followed(name, value):
            raise UnsupportedError(f"property {name!r} is for the Java client of the store")
    given = {argument: properties.get(name) or None for name, argument in _KEYS.items()}
    has_keys = bool(given["access_key"] and given["secret_key"])
    is_refreshed = properties.get("client.refresh-credentials-enabled", "true").lower() == "true"
    if not has_keys and is_refreshed and properties.get(_REFRESHED_BY):
        raise UnsupportedError("the catalog gives keys of the store to its Java client only")
    arguments: dict[str, Any] = given if has_keys else {}
    if region := properties.get("client.region"):
        arguments["region"] = region
    if endpoint := properties.get("s3.endpoint"):
        by_path = properties.get("s3.path-style-access", "false").lower() == "true"
        arguments |= {"endpoint_override": endpoint, "force_virtual_addressing": not by_path}
    return arguments


def _is_followed(name: str, value: str) -> bool:
    if name in _FOLLOWED | _WITHOUT_EFFECT or name.startswith(_PREFIXES_WITHOUT_EFFECT):
        return True
    is_flag = name.endswith("enabled") and not name.startswith(_WITH_NAMES_OF_THEIR_OWN)
    is_off = is_flag and value.lower() == "false" and name != "s3.delete-enabled"
    return is_off or (name, value.lower()) in _OFF
