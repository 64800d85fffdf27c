"""The reference names what is left on tables, and each field and outcome of a report."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.reports.report_codec import REPORTS
from airflow_lake_provider.contracts.specs.spec_codec import SPECS
from airflow_lake_provider.contracts.table_facts import TableState

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY / "docs" / "reference"
# A constant of a module, such as ``RUN_KEY = "lake.run-key"``; metrics are in mappings.
NAME = re.compile(r'^_?[A-Z_]+ = "(lake\.[a-z-]+\.?)"$', re.MULTILINE)
# Their reports are of a table's refs, properties or statistics, and no snapshot is theirs.
WITHOUT_SNAPSHOT = {"change-metadata", "compute-statistics", "remove-orphans", "snapshot-expiry"}


def code_of(page: str) -> str:
    """Return all that a page of the reference has as code."""
    prose = re.sub(r"^```.*?^```$", "", (REFERENCE / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.findall(r"`([^`]+)`", prose))


def names() -> set[str]:
    """Return the names that modules of the package have for what they write on a table."""
    modules = (REPOSITORY / "airflow_lake_provider").rglob("*.py")
    return {name for module in modules for name in NAME.findall(module.read_text())}


def test_the_page_of_names_has_each_name_that_is_left_on_a_table() -> None:
    assert {"lake.run-key", "lake.position."} <= names()
    assert {name for name in names() if name not in code_of("table-names.md")} == set()


def test_the_page_of_names_has_each_action_that_makes_a_snapshot() -> None:
    actions = set(re.findall(r"[\w-]+", code_of("table-names.md")))
    assert set(SPECS) - WITHOUT_SNAPSHOT - actions == set()


def test_the_page_of_reports_has_each_field_and_outcome() -> None:
    named = set(re.findall(r"[\w-]+", code_of("reports.md")))
    of_reports = {field.name for report in (*REPORTS.values(), TableState) for field in fields(report)}
    assert of_reports - named == set()
    assert {outcome.value for outcome in Outcome} - named == set()
