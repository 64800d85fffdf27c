"""Every connection that a page or a message shows is one that jobs take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_lake_provider.catalogs.catalog_connection import EXAMPLE, CatalogConnection
from scripts.markdown_pages import REPOSITORY, documents

_START = '{"conn_type": "iceberg"'


def connections(text: str) -> Iterator[dict[str, Any]]:
    """Yield each connection of a lake that a text shows as JSON."""
    start = text.find(_START)
    while start >= 0:
        fields, _ = json.JSONDecoder().raw_decode(text[start:])
        yield fields
        start = text.find(_START, start + 1)


TEXTS = {str(path.relative_to(REPOSITORY)): path.read_text() for path in documents()}
TEXTS["docker/compose.yaml"] = (REPOSITORY / "docker/compose.yaml").read_text()
TEXTS["the message for a connection that is missing"] = EXAMPLE
SHOWN = [
    pytest.param(fields, id=f"{place} {number}")
    for place, text in TEXTS.items()
    for number, fields in enumerate(connections(text), 1)
]


def test_pages_and_the_message_show_connections() -> None:
    places = {str(each.id).rpartition(" ")[0] for each in SHOWN}
    assert {"docs/getting-started.md", "docs/how-to/connection.md", list(TEXTS)[-1]} <= places
    assert len(SHOWN) == sum(text.count('"conn_type": "iceberg"') for text in TEXTS.values())


@pytest.mark.parametrize("fields", SHOWN)
def test_a_connection_that_is_shown_is_taken(fields: dict[str, Any]) -> None:
    given = {name: value for name, value in fields.items() if name != "conn_type"}
    assert CatalogConnection.from_fields(conn_id="lake_default", **given).kind == fields["extra"].get("type", "rest")
