"""Sizes of files: ``"128MB"`` or a number of bytes."""

from __future__ import annotations

import re

from airflow_lake_provider.contracts.errors import InvalidSpecError

# Powers of 1,024, as Spark, Hadoop and Iceberg's documentation count: 128MB is 134217728.
_UNITS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
# Iceberg keeps it in a Java long.
_LARGEST = 2**63 - 1


def size(value: object, name: str) -> int:
    """Return a number of bytes above zero.

    :param value: whole number of bytes, or a text: a whole number and one of ``B``, ``KB``, ``MB``, ``GB``, ``TB``, in
        any case, as ``128 MiB`` or ``1g`` too. Units are powers of 1,024.
    :raises InvalidSpecError: for anything else.
    """
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    bytes_ = int(found[1]) * _UNITS[found[2].upper()] if found else value
    if isinstance(bytes_, bool) or not isinstance(bytes_, int) or not 0 < bytes_ <= _LARGEST:
        raise InvalidSpecError(f"{name} must be a size such as '128MB' or a number of bytes, got {value!r}")
    return bytes_
