"""A table partitioned anew, whose column of before was dropped: its deletes keep it from being compacted in parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.tables.iceberg import compaction_plan
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.made_tables import MIB, MadeDelete, MadeFile, MadeTable, spread

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
DELETE = MadeDelete("position", 1, target=0)
BUCKET = {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[4]"}
PARTS: list[dict[str, Any]] = [{"where": "id < 5"}, {"skip_partitions": ("id_bucket=3",)}]


def without_day(folder: Path, files: Sequence[MadeFile], *deletes: MadeDelete) -> LoadedIcebergTable:
    """Return a table that was partitioned by ``day``, then by a bucket of ``id``, and that has no ``day`` any more."""
    location = MadeTable(files=files, deletes=deletes).write(folder / "t", NOW).removeprefix("file://")
    metadata = json.loads(Path(location).read_text())
    (schema,) = metadata["schemas"]
    left = [each for each in schema["fields"] if each["name"] != "day"]
    metadata["schemas"].append({**schema, "schema-id": 1, "fields": left})
    metadata["partition-specs"].append({"spec-id": 1, "fields": [BUCKET]})
    metadata |= {"current-schema-id": 1, "default-spec-id": 1, "last-partition-id": 1001}
    Path(location).write_text(json.dumps(metadata))
    return LoadedIcebergTable(StaticTable.from_metadata(f"file://{location}"))


def compaction(**arguments: Any) -> CompactionSpec:
    run = RunIdentity.of("dag", "run", "task", "-1")
    return CompactionSpec(catalog="lake", table="shop.t", run=run, level=CompactionLevel.MINOR, **arguments)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_which_nothing_is_due_needs_no_refusal(tmp_path: Path, part: dict[str, Any]) -> None:
    table = without_day(tmp_path, spread(6, 450 * MIB), DELETE)
    assert table.plan_compaction(compaction(**part)).outcome is Outcome.NOTHING_DUE


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_which_files_are_due_is_refused(tmp_path: Path, part: dict[str, Any]) -> None:
    table = without_day(tmp_path, spread(20, MIB), DELETE)
    with pytest.raises(UnsupportedError, match="deletes lie in partitions by 'day', whose column was dropped"):
        table.plan_compaction(compaction(**part))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_planned_where_no_delete_is_left(tmp_path: Path, part: dict[str, Any]) -> None:
    table = without_day(tmp_path, spread(20, MIB))
    assert table.plan_compaction(compaction(**part)).outcome is Outcome.PLANNED


def test_health_says_that_no_part_can_be_left_out(tmp_path: Path) -> None:
    ill = health_of(without_day(tmp_path / "a", spread(20, MIB), DELETE), NOW).obstacles
    assert "compaction" not in ill
    assert ill["compaction-of-part"].startswith("deletes lie in partitions by 'day', whose column was dropped")
    assert health_of(without_day(tmp_path / "b", spread(20, MIB)), NOW).obstacles == {}


def test_an_earlier_try_is_looked_for_by_the_key_that_the_driver_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(compaction_plan, "is_untidied", lambda *given: asked.append(given[2]))
    spec = compaction()
    without_day(tmp_path, spread(20, MIB), DELETE).plan_compaction(spec)
    assert asked == [spec.run.run_key(spec.digest_text(), ())]
