"""Settings of a Debezium connector that tell how its events are written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from airflow_lake_provider.contracts.argument_validation import choice_of, optional, text
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError

UNAVAILABLE_VALUE = "__debezium_unavailable_value"


class BinaryHandling(str, Enum):
    """A connector's ``binary.handling.mode``, which says how it writes bytes; ``bytes`` is base64 in JSON."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class DecimalHandling(str, Enum):
    """A connector's ``decimal.handling.mode``; ``precise`` is base64 of bytes in JSON, the other two are numbers."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


def _placeholder(value: object, name: str) -> str:
    placeholder = text(value, name)
    if placeholder.startswith("hex:") and not re.fullmatch("hex:(?:[0-9A-Fa-f]{2})+", placeholder):
        raise InvalidSpecError(f"{name} must have pairs of hexadecimal digits after 'hex:', got {value!r}")
    return placeholder


@dataclass(frozen=True)
class DebeziumConnector(ArgumentObject):
    """Base of what reads a connector's events.

    :param binary_handling_mode: as of :class:`.Debezium`, and the next three.
    :param decimal_handling_mode: the connector's.
    :param unavailable_value_placeholder: the connector's.
    :param key_field_name: of a transform.
    """

    binary_handling_mode: BinaryHandling | str | None = field(
        default=None, kw_only=True, metadata=reads(optional(choice_of(BinaryHandling)))
    )
    decimal_handling_mode: DecimalHandling | str | None = field(
        default=None, kw_only=True, metadata=reads(optional(choice_of(DecimalHandling)))
    )
    unavailable_value_placeholder: str = field(default=UNAVAILABLE_VALUE, kw_only=True, metadata=reads(_placeholder))
    key_field_name: str = field(default="__dbz__physicalTableIdentifier", kw_only=True, metadata=reads(text))

    @property
    def unavailable_value(self) -> bytes:
        """Bytes that stand for a value the server did not send."""
        given = self.unavailable_value_placeholder
        return bytes.fromhex(given.removeprefix("hex:")) if given.startswith("hex:") else given.encode()
