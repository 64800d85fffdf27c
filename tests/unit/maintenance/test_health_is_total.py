"""Whatever a stranger's table says, its health is a number from 0 to 100 with its parts, or it is refused as broken."""

from __future__ import annotations

import json
from collections.abc import Collection
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.table_facts import TableFacts, TableState
from airflow_lake_provider.iceberg.manifest_rules import manifest_target_bytes
from airflow_lake_provider.iceberg.metadata_facts import read_facts
from airflow_lake_provider.iceberg.snapshot_retention import expirable_snapshots
from airflow_lake_provider.maintenance.health import TableHealth, health_of
from airflow_lake_provider.maintenance.score import HealthLimits
from airflow_lake_provider.tables.base import LoadedTable
from airflow_lake_provider.tables.head_files import FEWEST_MERGED, HeadFiles
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord
from airflow_lake_provider.tables.iceberg.head_files import ManifestRecord, count_head, target_bytes
from airflow_lake_provider.tables.iceberg.live_files import DeleteRecord, LiveFiles

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
AT = int(NOW.timestamp() * 1000)

counts = st.one_of(
    st.integers(0, 50).map(str),
    st.integers(-5, 2**64).map(str),
    st.sampled_from(["", "²", "-1", "1e9", "NaN", "9" * 5000, "many"]),
)
keys = st.sampled_from(
    [
        *(f"total-{kind}" for kind in ("data-files", "files-size", "records", "delete-files", "position-deletes")),
        *("total-equality-deletes", "added-data-files", "added-files-size", "deleted-data-files", "added-records"),
        *("manifests-created", "manifests-kept", "partitions.day=1", "lake.action"),
    ]
)
summaries = st.one_of(
    st.none(),
    st.builds(
        lambda operation, said: {"operation": operation, **said},
        st.sampled_from(["append", "replace", "overwrite", "delete", "unheard-of"]),
        st.dictionaries(keys, counts),
    ),
)
names = st.sampled_from(["main", "audit", "lake.consumer.c", "lake.consumer.c.reading", "lake_stage_1", "v1"])


@st.composite
def metadata_of_any_table(draw: st.DrawFn) -> dict[str, Any]:
    """Return metadata of the spec's form with numbers that nobody has to believe."""
    size = draw(st.integers(0, 6))
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": draw(st.one_of(st.none(), st.integers(1, max(1, number - 1))))
            if number > 1
            else None,
            "timestamp-ms": draw(st.integers(0, 2 * AT)),
            "sequence-number": draw(st.integers(0, 10_000)),
            "summary": draw(summaries),
        }
        for number in range(1, size + 1)
    ]
    refs = draw(st.dictionaries(names, st.integers(1, size), max_size=4)) if size else {}
    numbers = st.sampled_from(["1", "0", "-1", "soon", "9" * 40, "536870912"])
    settings_of_owner = st.sampled_from(
        [
            *("write.target-file-size-bytes", "history.expire.max-snapshot-age-ms", "history.expire.max-ref-age-ms"),
            *("history.expire.min-snapshots-to-keep", "commit.manifest.target-size-bytes"),
        ]
    )
    return {
        "format-version": draw(st.sampled_from([1, 2, 3])),
        "location": "s3://bucket/t",
        "schemas": [{"schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": [{"name": "x"}]}],
        "default-spec-id": draw(st.sampled_from([0, 1, 7])),
        "properties": draw(st.dictionaries(settings_of_owner, numbers)),
        "snapshots": snapshots,
        "refs": {
            name: {"snapshot-id": at, "type": "branch" if name in ("main", "audit", "lake_stage_1") else "tag"}
            for name, at in refs.items()
        },
        "snapshot-log": [{"timestamp-ms": draw(st.integers(0, 2 * AT)), "snapshot-id": draw(st.integers(0, 9))}],
    }


partitions = st.sampled_from([(), (1,), (None,), ("a", 2)])
long_numbers = st.integers(-(2**63), 2**63 - 1)
files = st.builds(
    FileRecord,
    path=st.text(max_size=3),
    spec_id=st.integers(0, 2),
    partition=partitions,
    bytes=long_numbers,
    records=long_numbers,
    delete_files=st.frozensets(st.sampled_from("abc")),
    snapshot=st.one_of(st.none(), st.integers(1, 6).map(str)),
)
deletes = st.builds(
    DeleteRecord,
    id=st.sampled_from("abcd"),
    spec_id=st.integers(0, 2),
    partition=partitions,
    bytes=long_numbers,
    records=long_numbers,
    sequence=st.integers(0, 9),
    target=st.none(),
    is_equality=st.booleans(),
    is_vector=st.booleans(),
)
bounds = st.one_of(st.none(), st.tuples(st.integers(), st.integers()), st.tuples(st.text(), st.text()))
manifests = st.builds(
    ManifestRecord,
    bytes=long_numbers,
    is_of_deletes=st.booleans(),
    is_of_current_spec=st.booleans(),
    spec_id=st.integers(0, 2),
    files=st.integers(-3, 2**31),
    ranges=st.lists(bounds, max_size=2).map(tuple),
)


class AnyTable(LoadedTable):
    """A table whose manifests say what they like."""

    capabilities = ICEBERG

    def __init__(self, facts: TableFacts, live: LiveFiles, listed: list[ManifestRecord]) -> None:
        self._facts, self._live, self._listed = facts, live, listed

    @property
    def facts(self) -> TableFacts:
        return self._facts

    def state(self) -> TableState:
        raise NotImplementedError

    @property
    def target_bytes(self) -> int:
        return target_bytes(self._facts)

    def expirable(self, now: datetime, older_than: timedelta | None = None, retain_last: int | None = None) -> int:
        return expirable_snapshots(self._facts, now, older_than, retain_last)

    def head_files(self, recent: Collection[str], target: int | None = None, fewest: int = FEWEST_MERGED) -> HeadFiles:
        return count_head(
            self._listed,
            lambda: self._live,
            lambda spec_id, values: f"{spec_id}={values!r}",
            recent,
            target=target or self.target_bytes,
            manifest_target=manifest_target_bytes(self._facts.properties),
            fewest=fewest,
        )


@settings(max_examples=300, deadline=None)
@given(
    metadata_of_any_table(),
    st.builds(LiveFiles, data=st.lists(files, max_size=6), deletes=st.lists(deletes, max_size=4)),
    st.lists(manifests, max_size=5),
    st.sampled_from([None, timedelta(hours=1)]),
)
def test_any_table_has_a_score_with_parts_that_make_it(
    metadata: dict[str, Any], live: LiveFiles, listed: list[ManifestRecord], fresh: timedelta | None
) -> None:
    table = AnyTable(read_facts("a.b", metadata), live, listed)
    found = health_of(table, NOW, HealthLimits(fresh_within=fresh))
    assert found.score == max(0, 100 - sum(part.lost for part in found.parts))
    for part in found.parts:
        assert 0 <= part.lost <= part.most
        assert part.reason.endswith(".")
    assert health_of(table, NOW, HealthLimits(fresh_within=fresh)) == found
    assert TableHealth.from_json(found.to_json()) == found


WHOLE: dict[str, Any] = {
    "format-version": 2,
    "location": "s3://bucket/t",
    "schemas": [{"schema-id": 0, "fields": []}],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "properties": {"a": "b"},
    "snapshots": [{"snapshot-id": 1, "timestamp-ms": AT, "sequence-number": 1, "summary": {"operation": "append"}}],
    "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
    "snapshot-log": [{"timestamp-ms": AT, "snapshot-id": 1}],
    "metadata-log": [{"timestamp-ms": AT, "metadata-file": "s3://bucket/t/1.metadata.json"}],
}
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)
PLACES = [
    *((name,) for name in WHOLE),
    *(("snapshots", 0, name) for name in ("snapshot-id", "timestamp-ms", "sequence-number", "summary")),
    *(("snapshots", 0, "summary", name) for name in ("operation", "total-data-files")),
    *(("refs", "main", name) for name in ("snapshot-id", "type")),
    ("snapshots", 0),
    ("refs", "main"),
    ("snapshot-log", 0),
    ("snapshot-log", 0, "timestamp-ms"),
    ("metadata-log", 0),
    ("schemas", 0),
    ("partition-specs", 0),
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLACES), json_values)
def test_a_value_of_another_kind_is_read_or_refused_as_broken(place: tuple[Any, ...], value: object) -> None:
    metadata: Any = deepcopy(WHOLE)
    inner = metadata
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    try:
        facts = read_facts("a.b", json.dumps(metadata).encode())
        health = health_of(AnyTable(facts, LiveFiles(data=[], deletes=[]), []), NOW)
    except BrokenMetadataError:
        return
    assert health.score is not None
    assert TableHealth.from_json(health.to_json()) == health


@pytest.mark.parametrize(
    "text", ["", "[", "null", "3", '"x"', "[]", "{}", "\x00", "[" * 100_000], ids=lambda text: text[:3]
)
def test_what_is_no_metadata_is_refused_without_its_contents(text: str) -> None:
    with pytest.raises(
        BrokenMetadataError, match=r"a\.b: its metadata does not have the form of Iceberg's spec \(\w+\)"
    ):
        read_facts("a.b", text.encode())
