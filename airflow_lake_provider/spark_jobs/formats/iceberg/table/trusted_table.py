"""Refuse a table whose properties, metadata log or catalog would choose code, redirect keys or delete foreign files.

Called by ``iceberg_table.py`` for each version of the metadata, so before anything of it is read, written or deleted.
What was parsed anyway is looked at; the JVM is asked only where a REST catalog has answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.file_locations import normalised
from airflow_lake_provider.contracts.untrusted_properties import FILE_IOS, objections_of_spark, untrusted_code
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of, settings_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

# Iceberg's SparkCatalog adds them to what the session says; no FileIO reads them.
_OF_SPARK = ("app-id", "app-name", "user")
_REST = "org.apache.iceberg.rest.RESTCatalog"


@cache
def catalog_settings(spark: SparkSession, catalog: str) -> dict[str, str]:
    """Return what the session says of a catalog, by the name that Iceberg has for it.

    Read once: Spark makes a catalog once, by what its settings are then.
    """
    # One by one, they would be some hundred commands. No setting has a NUL.
    prefix = f"spark.sql.catalog.{catalog}."
    settings = settings_of(spark).items()
    return {name.removeprefix(prefix): value for name, value in settings if name.startswith(prefix)}


def refuse_code_properties(table: str, properties: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Refuse a table whose properties name a class, or settings of Hadoop.

    A class is trusted that the session gives new tables: ``table-default.*`` or ``table-override.*`` of its catalog.

    :param own: see :func:`catalog_settings`.
    :raises UnsupportedError: it names one.
    """
    unsafe = untrusted_code(properties, own)
    if not unsafe:
        return
    named = ", ".join(f"{name}={value!r}" for name, value in unsafe.items())
    unset = ", ".join(f"'{name}'" for name in unsafe)
    raise UnsupportedError(
        f"{table}: its properties {named} choose code, or where keys go, which whoever may alter the table could "
        f"abuse; nothing was read or written. Remove them: ALTER TABLE {table} UNSET TBLPROPERTIES ({unset}). Where "
        "they are meant, the connection's extra has to say the same in its spark, as table-default."
        f"{next(iter(unsafe))}"
    )


def refuse_foreign_file_io(spark: SparkSession, table: str, java: Any, own: Mapping[str, str]) -> None:
    """Refuse a ``FileIO`` that a REST catalog has made of more than it may say.

    :param java: ``org.apache.iceberg.Table``.
    :param own: see :func:`catalog_settings`.
    :raises UnsupportedError: it has a class or properties that only the session may say.
    """
    if own.get("type") != "rest" and own.get("catalog-impl") != _REST:
        # Other catalogs make it of the session's settings alone.
        return
    io = java.io()
    kind, properties = described_io(spark, io)
    trusted = {own["io-impl"]} if "io-impl" in own else FILE_IOS
    unsafe = set() if kind in trusted else {f"io-impl (it is {kind})"}
    own = {**own, **{name: properties[name] for name in _OF_SPARK if name in properties}}
    for each in (properties, *({**properties, **vended} for _, vended in vended_properties(spark, io, kind))):
        unsafe.update(objections_of_spark(each, own, own.get("uri", "")))
    if unsafe:
        raise UnsupportedError(
            f"{table}: the REST catalog's answer has what only the connection may say: {', '.join(sorted(unsafe))}. It "
            "chooses code, or where keys go; nothing was read or written. Ask who runs the catalog. Where it is meant, "
            "say it in the connection's extra as well"
        )


def described_io(spark: SparkSession, io: Any) -> tuple[str, dict[str, str]]:
    """Return class and properties of a ``FileIO``, by one command."""
    try:
        parsed = json.loads(jvm_of(spark).org.apache.iceberg.io.FileIOParser.toJson(io))
    except GatewayError:
        # It does not tell its properties.
        return str(io.getClass().getName()), {}
    return parsed["io-impl"], parsed["properties"]


def vended_properties(spark: SparkSession, io: Any, kind: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield prefixes of the storage, and the properties that a server has sent for each.

    :param kind: class of the ``FileIO``.
    """
    if kind not in FILE_IOS:
        return
    mapper = jvm_of(spark).org.apache.iceberg.util.JsonUtil.mapper()
    try:
        credentials = io.credentials()
    except GatewayError:
        return
    for place in range(credentials.size()):
        vended = credentials.get(place)
        yield str(vended.prefix()), json.loads(mapper.writeValueAsString(vended.config()))


DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_METADATA_FILE = re.compile(r"[^/]*\.metadata\.json(\.gz)?")


def refuse_foreign_metadata_log(
    table: str, metadata: Mapping[str, Any], current: str, uuid_in: Callable[[str], str]
) -> None:
    """Refuse a log that names anything but metadata files beside the current one, and earlier ones of the table.

    :param metadata: of the table, as JSON.
    :param current: location of its metadata file.
    :param uuid_in: returns the table uuid of a metadata file; empty for what is none.
    :raises UnsupportedError: a commit could delete another file.
    """
    if str(metadata.get("properties", {}).get(DELETE_AFTER_COMMIT, "false")).lower() != "true":
        return
    foreign = [entry for entry in _elsewhere(metadata, current) if not _is_earlier(entry, metadata, uuid_in)]
    if foreign:
        raise UnsupportedError(
            f"{table}: its metadata log names {', '.join(foreign[:3])}, which is no earlier metadata of the table, and "
            f"{DELETE_AFTER_COMMIT} would make a commit delete it; nothing was changed. See who wrote the log, then "
            f"ALTER TABLE {table} SET TBLPROPERTIES ('{DELETE_AFTER_COMMIT}'='false')"
        )


def uuid_in_file(spark: SparkSession, io: Any, location: str) -> str:
    """Return the table uuid of a metadata file; empty for what is none.

    :param io: ``org.apache.iceberg.io.FileIO`` of the table.
    """
    iceberg = jvm_of(spark).org.apache.iceberg
    try:
        return str(iceberg.TableMetadataParser.read(io, location).uuid())
    except GatewayError:
        return ""


def _elsewhere(metadata: Mapping[str, Any], current: str) -> Iterator[str]:
    """Yield the entries that are no metadata files beside the current one."""
    folder = normalised(current).rpartition("/")[0]
    for entry in metadata.get("metadata-log", ()):
        location = str(entry["metadata-file"])
        beside, _, name = normalised(location).rpartition("/")
        if beside != folder or not _METADATA_FILE.fullmatch(name):
            yield location


def _is_earlier(entry: str, metadata: Mapping[str, Any], uuid_in: Callable[[str], str]) -> bool:
    if not _METADATA_FILE.fullmatch(entry.rpartition("/")[2]):
        return False
    return uuid_in(entry) == metadata["table-uuid"]
