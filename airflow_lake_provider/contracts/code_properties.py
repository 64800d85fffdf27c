"""Table properties with which a table would choose code, or the file system that a writer's keys go to.

Whoever may alter a table sets them, so they are never followed. Iceberg-Java loads the class of
``write.location-provider.impl``. It also copies every table property into the Hadoop configuration of its Parquet and
ORC writers (``Parquet.WriteBuilder.build`` and ``ORC.WriteBuilder`` of Iceberg 1.12), where ``fs.file.impl`` names the
class of a file system and ``fs.s3a.endpoint`` the server that Hadoop's keys are sent to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Iceberg ends the names of classes in "impl", Hadoop, Parquet and ORC theirs in "class" and the like.
_CLASS = re.compile(r"(^|[.\-_])(impl|class|classes|factory|serializations|codecs)$|[.\-_]provider$")
_HADOOP = ("fs.", "hadoop.", "dfs.", "ipc.", "viewfs.", "io.file.", "io.seqfile.", "net.topology.", "mapreduce.job.")
_KEYS = ("parquet.crypto.", "parquet.encryption.", "orc.key.", "orc.encrypt", "orc.mask", "client.credentials-provider")
# PyIceberg reads them and Java does not.
_OF_PYTHON = ("py-", "write.py-")


def code_properties(properties: Mapping[str, str], *, of_python: bool = False) -> dict[str, str]:
    """Return the properties that choose code or a file system, by name.

    :param of_python: also those that only PyIceberg reads.
    """
    return {
        name: str(value)
        for name, value in sorted(properties.items())
        if _chooses_code(name.strip().lower()) and (of_python or not name.strip().lower().startswith(_OF_PYTHON))
    }


def untrusted_code(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that choose a driver's code, and that the catalog does not give new tables itself.

    :param own: of the catalog, by Iceberg's names; ``table-default.*`` and ``table-override.*`` are trusted.
    """
    given = ("table-default.", "table-override.")
    found = code_properties(properties).items()
    return {name: value for name, value in found if value not in (own.get(f"{prefix}{name}") for prefix in given)}


def _chooses_code(name: str) -> bool:
    return name.startswith((*_HADOOP, *_KEYS)) or _CLASS.search(name) is not None
