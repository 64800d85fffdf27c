"""Tables of ``scripts/soak faults`` that are maintained: each step makes work for one action."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.manifest import ManifestContent

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.curve_order import CURVE_ORDER
from airflow_lake_provider.contracts.row_age import Clock
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    RemovalMode,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import CreateTagSpec, MetadataChangeSpec
from airflow_lake_provider.iceberg.orphan_files import QUARANTINE
from airflow_lake_provider.planning.metadata_changes import plan_tag
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.soak.fault_checks import is_hidden
from tests.soak.fault_tables import FaultTable, Step

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
BUCKETS = "PARTITIONED BY (bucket(2, id))"


@dataclass
class Compactions(FaultTable):
    """Small files and deletes, which a compaction rewrites."""

    version: int = 3
    level: CompactionLevel = CompactionLevel.MAJOR
    partition: str = ""
    curve: CompactionStrategy | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version, self.partition)
        if len(self.model) > 60:
            self._delete(self.random.sample(sorted(self.model), 40))
        self._insert(self._free_ids(15), files=5)
        self._delete(self.random.sample(sorted(self.model), 4))
        order: dict[str, Any] = {"strategy": self.curve, "sort_by": ("id", "n")} if self.curve else {}
        spec = CompactionSpec(**frame, level=self.level, min_input_files=2, **order, **self.arguments)
        return Step(spec, dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that the table says of its rows that they lie along the curve."""
        properties = self.lake.catalog().load_table(self.table).properties
        assert not self.curve or not is_done or "id, n" in json.loads(properties[CURVE_ORDER])["by"]


@dataclass
class ManifestRewrites(FaultTable):
    """Many small manifests of two partition specs, which a rewrite merges."""

    version: int = 2

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version, BUCKETS)
            self.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ('commit.manifest-merge.enabled'='false')")
            self._insert(self._free_ids(3))
            self._insert(self._free_ids(3))
            self.sql(f"ALTER TABLE {self.table} ADD PARTITION FIELD truncate(1, name)")
        for _ in range(3):
            self._insert(self._free_ids(3))
        self._delete(self.random.sample(sorted(self.model), 3))
        return Step(RewriteManifestsSpec(**frame), dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that each partition spec has one manifest of data files at the end."""
        table = self.lake.catalog().load_table(self.table)
        head = table.current_snapshot()
        manifests = [] if head is None else head.manifests(table.io)
        by_spec = Counter(each.partition_spec_id for each in manifests if each.content is ManifestContent.DATA)
        assert not is_done or set(by_spec.values()) == {1}, f"manifests by spec: {by_spec}"


@dataclass
class Statistics(FaultTable):
    """A new head in each step, whose statistics are computed."""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(2, BUCKETS)
        self._insert(self._free_ids(3))
        self._delete(self.random.sample(sorted(self.model), 2))
        return Step(StatisticsSpec(**frame), dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that the head has statistics at the end."""
        metadata = self.lake.catalog().load_table(self.table).metadata
        has = {each.snapshot_id for each in metadata.statistics}
        assert not is_done or metadata.current_snapshot_id in has, "the head has no statistics"


@dataclass
class RowExpiries(FaultTable):
    """Old and young rows, in files of their own and in files of both."""

    version: int = 3
    partition: str = ""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.version, self.partition)
            self.sql(f"ALTER TABLE {self.table} ADD COLUMN day DATE")
            if self.partition:
                self.sql(f"ALTER TABLE {self.table} ADD PARTITION FIELD months(day)")
        if len(self.model) > 60:
            self._delete(self.random.sample(sorted(self.model), 30))
        kept = dict(self.model)
        for ages in ((90,), (90, 1), (1,)):
            values = []
            for place, id_ in enumerate(self._free_ids(3)):
                name, n, age = f"s{self.steps}", self.steps * 1000 + id_, ages[place % len(ages)]
                self.model[id_] = (name, n)
                kept |= {id_: (name, n)} if age == 1 else {}
                values.append(f"({id_}L, '{name}', {n}, current_date() - {age})")
            self.sql(f"INSERT INTO {self.table} SELECT /*+ REPARTITION(1) */ * FROM VALUES {', '.join(values)}")
        spec = RowExpirySpec(
            **frame,
            column="day",
            keep=timedelta(days=30),
            clock=Clock.NOW,
            max_share=1.0,
            asked_at=datetime.now(UTC),
        )
        return Step(spec, kept)


@dataclass
class Expiries(FaultTable):
    """Rows that are overwritten, so that an expiry has files to delete."""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.random.choice((2, 3)))
        # The first expiry, too, has something to delete.
        for _ in range(2 if self.steps == 1 else 1):
            if self.model:
                self.sql(f"DELETE FROM {self.table} WHERE true")
                self.model.clear()
            self._insert(self._free_ids(6), files=2)
            self._delete(self.random.sample(sorted(self.model), 2))
        soon = datetime.now(UTC) + timedelta(minutes=1)
        spec = SnapshotExpirySpec(
            **frame,
            expire_before=soon,
            expire_stage_branches_before=soon,
            retain_last=self.random.choice((1, 2)),
        )
        return Step(spec, dict(self.model))


@dataclass
class OrphanRemovals(FaultTable):
    """Files that nothing names, which go for good, to the quarantine or back, beside files that live.

    :param planted: content by path; of the last step, and what that one has restored.
    :param live: files that the metadata reaches.
    """

    planted: dict[Path, bytes] = field(default_factory=dict)
    live: frozenset[Path] = frozenset()
    mode: RemovalMode = RemovalMode.DELETE

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.random.choice((2, 3)))
        if self.mode is RemovalMode.QUARANTINE and self.random.random() < 0.6:
            self.mode = RemovalMode.RESTORE
        else:
            self._plant(self.planted if self.mode is RemovalMode.RESTORE else {})
            self.mode = self.random.choice((RemovalMode.DELETE, RemovalMode.QUARANTINE))
        return Step(self._spec(frame), dict(self.model))

    def _spec(self, frame: Mapping[str, Any], **arguments: Any) -> OrphanFilesSpec:
        now = datetime.now(UTC)
        return OrphanFilesSpec(**frame, mode=self.mode, max_share=1.0, tables_checked=1, asked_at=now, **arguments)

    def _plant(self, restored: Mapping[Path, bytes]) -> None:
        self._insert(self._free_ids(6), files=2)
        self._delete(self.random.sample(sorted(self.model), 2))
        names = [f"data/s{self.steps}-{number}.parquet" for number in range(3)]
        planted = {
            self.folder / name: f"orphan {name}".encode() for name in (*names, f"metadata/s{self.steps}-m0.avro")
        }
        there = {path for path in self.folder.rglob("*") if path.is_file()}
        self.live = frozenset(path for path in there if not is_hidden(str(path))) - restored.keys()
        for path, content in planted.items():
            path.write_bytes(content)
        for path in (*there, *planted):
            os.utime(path, (LONG_AGO, LONG_AGO))
        self.planted = {**restored, **planted}

    @property
    def folder(self) -> Path:
        """Its location."""
        location = self.lake.catalog().load_table(self.table).location()
        return Path("/" + location.removeprefix("file:").lstrip("/"))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that orphans are gone or back at the end, and that neither a quarantine nor a live file is lost."""
        gone = [path for path in self.live if not path.exists()]
        assert not gone, f"files are lost that the metadata reaches: {gone}"
        there = {path for path, content in self.planted.items() if path.exists() and path.read_bytes() == content}
        if self.mode is RemovalMode.RESTORE:
            assert not is_done or there == self.planted.keys(), f"not restored: {sorted(self.planted.keys() - there)}"
        else:
            assert not is_done or not there, f"orphans are left: {sorted(there)}"
        if self.mode is not RemovalMode.DELETE:
            aside = {path.read_bytes() for path in (self.folder / QUARANTINE).rglob("*") if path.is_file()}
            lost = [path for path, content in self.planted.items() if path not in there and content not in aside]
            assert not lost, f"neither in their place nor in the quarantine: {lost}"


@dataclass
class Purges(OrphanRemovals):
    """Files that go to the quarantine, beside those whose time there is over.

    :param aside: files of earlier steps in the quarantine.
    """

    aside: frozenset[Path] = frozenset()

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(self.random.choice((2, 3)))
        self.mode = RemovalMode.QUARANTINE
        self.aside = frozenset(path for path in (self.folder / QUARANTINE).rglob("*") if path.is_file())
        for path in self.aside:
            os.utime(path, (LONG_AGO, LONG_AGO))
        self._plant({})
        return Step(self._spec(frame, quarantine_for=timedelta(days=1)), dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check, too, that at the end nothing of an earlier step is in the quarantine."""
        super().verify(is_done=is_done)
        left = sorted(path for path in self.aside if path.exists() and not path.name.startswith("."))
        assert not is_done or not left, f"their time in the quarantine is over: {left}"


@dataclass
class Tags(FaultTable):
    """A new head in each step, on which a tag is put."""

    def _next(self, frame: Mapping[str, Any]) -> Step:
        if self.steps == 1:
            self._create(2)
        self._insert(self._free_ids(3))
        table = self.lake.catalog().load_table(self.table)
        loaded, self.tagged = LoadedIcebergTable(table), table.metadata.current_snapshot_id
        planned = plan_tag(loaded, CreateTagSpec(**frame, tag=f"daily-{self.steps}", max_age=timedelta(days=1)))
        assert planned.change is not None
        # A worker commits it where it can.
        spec = MetadataChangeSpec(**frame, change=planned.change, planned=planned.report)
        return Step(spec, dict(self.model))

    def verify(self, *, is_done: bool = False) -> None:
        """Check that the tag is on the head, and that no tag of an earlier step has moved."""
        refs = self.lake.catalog().load_table(self.table).metadata.refs
        tag = refs.get(f"daily-{self.steps}")
        assert tag is None or tag.snapshot_id == self.tagged
        assert not is_done or len(refs) == self.steps + 1, f"tags: {sorted(refs)}"
