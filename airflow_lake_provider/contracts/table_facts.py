"""Facts that a table's metadata states, alike on worker and driver. Standard library only.

The worker reads it with PyIceberg (``tables/iceberg/loaded_table.py``), the driver in the JSON of Iceberg's spec
(``iceberg/metadata_facts.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.table_properties import ACTION

MAIN = "main"
# Keys of a snapshot summary, in the words of the Iceberg specification (appendix F), that say how rows came and went.
COUNT_KEYS = (
    "added-records",
    "deleted-records",
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-deletes",
    "removed-equality-deletes",
)
# Writers that count put one of these into every summary, also where nothing changed.
_COUNTED_KEYS = ("total-records", "total-data-files", "changed-partition-count")
# Actions that write a batch of rows.
_BATCHES = frozenset({"upsert", "append", "overwrite-partitions", "incremental"})
MAINTENANCE_ACTIONS = frozenset({"compaction", "snapshot-expiry", "rewrite-manifests"})
_KINDS = ("records", "data-files", "delete-files")
_REMOVED = ("deleted-records", "deleted-data-files", "removed-delete-files")


REMEDY = (
    "No writer makes that, so the metadata was damaged or changed by somebody. Register an earlier metadata file of "
    "the table, or drop it and restore it"
)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One snapshot. What its summary means is worked out when it is asked for: tables have thousands of them.

    :param id: as the format writes it: the number of Iceberg as text, which fits into no number of JSON.
    :param parent: None for a first snapshot, and where PyIceberg's expiry erased it.
    :param at: of the commit, in epoch milliseconds.
    :param sequence_number: 0 in format version 1.
    :param summary: all of it as text, ``operation`` included; empty where the writer wrote none.
    :param shares_commit: whether its parent may have been committed together with it.
    """

    id: str
    parent: str | None
    at: int
    sequence_number: int = 0
    summary: Mapping[str, str] = field(default_factory=dict)
    schema_id: int | None = None
    shares_commit: bool = False

    @property
    def committed_at(self) -> datetime:
        """Moment of the commit."""
        return datetime.fromtimestamp(self.at / 1000, UTC)

    @property
    def order(self) -> tuple[int, int]:
        """Sorts snapshots of one table by the order of their commits."""
        return self.sequence_number, self.at

    @property
    def operation(self) -> str | None:
        """``append``, ``overwrite``, ``delete`` or ``replace``; None where the writer wrote no summary."""
        return self.summary.get("operation")

    @property
    def counts(self) -> dict[str, int]:
        """The ``COUNT_KEYS`` of the summary that are above 0."""
        return {key: count for key in COUNT_KEYS if (count := count_of(self.summary, key))}

    @property
    def changes_rows(self) -> bool:
        """True where a reader of rows can see a difference; where the summary cannot tell, yes.

        The operation alone does not tell: a row delta that deletes nothing is an ``overwrite``.
        """
        if self.operation == "replace" or self.summary.get(ACTION) in MAINTENANCE_ACTIONS:
            return False
        summary = self.summary
        return any(count_of(summary, key) for key in COUNT_KEYS) or not any(key in summary for key in _COUNTED_KEYS)

    @property
    def brings_rows(self) -> bool:
        """True where rows came, and fewer went; False where the summary does not tell, unless it is an append.

        A deletion that writes files anew adds rows, too, and takes more away. An update, or a compaction by an
        ``INSERT OVERWRITE``, adds as many. Of our own batches each brings rows that changed.
        """
        if not self.changes_rows:
            return False
        added, deleted = (count_of(self.summary, f"{change}-records") for change in ("added", "deleted"))
        if self.operation == "append" or (self.summary.get(ACTION) in _BATCHES and 0 < added >= deleted):
            return True
        return self.rows_gained > 0

    @property
    def rows_gained(self) -> int:
        """Rows that came, less those that went; keys of equality deletes are not counted."""
        added, deleted = (count_of(self.summary, f"{change}-records") for change in ("added", "deleted"))
        new, old = (count_of(self.summary, f"{change}-position-deletes") for change in ("added", "removed"))
        return added - deleted - max(0, new - old)

    @property
    def begins_history(self) -> bool:
        """True for the first snapshot of a table, also of one that replaced another and keeps its numbers.

        It has no parent, which PyIceberg's expiry erases as well, has removed nothing, and has in its totals no row or
        file but those added.
        """
        if self.parent is not None or any(count_of(self.summary, name) for name in _REMOVED):
            return False
        counts = [(self.summary.get(f"total-{kind}"), self.summary.get(f"added-{kind}", "0")) for kind in _KINDS]
        return self.sequence_number == 1 or all(total == added for total, added in counts)


def circular_history(table: str, snapshot: str) -> BrokenMetadataError:
    """Return the error about a snapshot that is its own ancestor.

    :param table: named in the error; empty where it is not known.
    """
    name = f"table {table}" if table else "the table"
    return BrokenMetadataError(
        f"the history of {name} goes in a circle: snapshot {snapshot} is its own ancestor. {REMEDY}."
    )


def ancestors(
    snapshots: Mapping[str, Snapshot], start: str | None, stop: Collection[str] = (), name: str = ""
) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, newest first, as far back as they are known.

    :param snapshots: by id.
    :param stop: snapshots before which the walk ends.
    :param name: of the table, for the error.
    :raises BrokenMetadataError: a snapshot is its own ancestor.
    """
    for _ in range(len(snapshots) + 1):
        snapshot = snapshots.get(start) if start is not None and start not in stop else None
        if snapshot is None:
            return
        yield snapshot
        start = snapshot.parent
    raise circular_history(name, start or "")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One branch or tag with the retention of its own; None where the table's or the expiry's counts."""

    name: str
    snapshot: str
    is_branch: bool
    min_snapshots: int | None = None
    max_snapshot_age: int | None = None
    max_ref_age: int | None = None


def histories_of(snapshots: Mapping[str, Snapshot], refs: Iterable[Reference]) -> list[list[Snapshot]]:
    """Return the snapshots of each branch, newest first, as far as their parents are not expired."""
    return [list(ancestors(snapshots, ref.snapshot)) for ref in refs if ref.is_branch]


@dataclass(frozen=True, kw_only=True)
class PartitionField:
    """A field of a partition spec.

    :param source_id: of the column that it is made of.
    :param source: path of that column; empty where the current schema lacks it.
    :param transform: as the spec of Iceberg writes it: ``bucket[16]``.
    """

    name: str
    source_id: int
    source: str
    transform: str


def schema_columns(kind: Any, path: str = "") -> Iterator[tuple[int, str, Any]]:
    """Yield id, path and type of each column of a schema, those inside of others as well."""
    parts = [(each["id"], each["name"], each["type"]) for each in kind.get("fields", ())]
    parts += [(kind[f"{part}-id"], part, kind[part]) for part in ("element", "key", "value") if part in kind]
    for id_, name, inner in parts:
        yield id_, f"{path}{name}", inner
        if not isinstance(inner, str):
            yield from schema_columns(inner, f"{path}{name}.")


def type_text(kind: Any) -> str:
    """Return a type as Iceberg and PyIceberg write it: ``struct<4: a: optional int>``."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "list":
        return f"list<{type_text(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['key'])}, {type_text(kind['value'])}>"
    return f"struct<{', '.join(_field_text(each) for each in kind['fields'])}>"


def _field_text(field: Mapping[str, Any]) -> str:
    need = "required" if field["required"] else "optional"
    doc = f" ({field['doc']})" if field.get("doc") else ""
    return f"{field['id']}: {field['name']}: {need} {type_text(field['type'])}{doc}"


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """A table without its rows and its history; one that is about to be made has it as well.

    :param schemas: by id, in the JSON of Iceberg's spec.
    :param partition_specs: fields of each by its id, likewise.
    :param sort_order: fields of the default sort order, likewise.
    """

    format_version: int
    properties: Mapping[str, str]
    schemas: Mapping[int, Mapping[str, Any]]
    schema_id: int
    partition_specs: Mapping[int, Sequence[Mapping[str, Any]]]
    spec_id: int
    sort_order: Sequence[Mapping[str, Any]] = ()

    def schema(self, schema_id: int | None = None) -> Mapping[str, Any]:
        """Return a schema; the current one where none has the id."""
        return self.schemas.get(self.schema_id if schema_id is None else schema_id) or self.schemas[self.schema_id]

    @cached_property
    def columns(self) -> dict[str, str]:
        """Types of the current columns by their paths, those inside of others as well."""
        return {path: type_text(kind) for _, path, kind in schema_columns(self.schema())}

    @cached_property
    def names(self) -> list[str]:
        """Current top-level columns."""
        return [field["name"] for field in self.schema()["fields"]]

    @property
    def names_ever(self) -> set[str]:
        """Top-level columns of every schema: a snapshot is read by that of its own time."""
        return {field["name"] for schema in self.schemas.values() for field in schema["fields"]}

    @property
    def identifiers(self) -> list[str]:
        """Identifier columns, sorted."""
        ids = self.schema().get("identifier-field-ids") or ()
        return sorted(self._paths[id_] for id_ in ids if id_ in self._paths)

    @property
    def sort_columns(self) -> list[str]:
        """Columns of the table's own sort order."""
        return [self._paths.get(field["source-id"], "") for field in self.sort_order]

    @property
    def is_partitioned(self) -> bool:
        """True where rows are in partitions now: a void field makes none."""
        return any(each.get("transform") != "void" for each in self.partition_specs.get(self.spec_id, ()))

    @property
    def was_partitioned(self) -> bool:
        """True where the files of some spec are in partitions by a column that is still there."""
        return any(field.source and field.transform != "void" for field in self.partition_fields(of_all_specs=True))

    def partition_fields(self, *, of_all_specs: bool = False) -> list[PartitionField]:
        """Return the fields that rows are partitioned by now, or those of all specs: files keep theirs."""
        specs = self.partition_specs.values() if of_all_specs else [self.partition_specs[self.spec_id]]
        return [
            PartitionField(
                name=each["name"],
                source_id=each["source-id"],
                source=self._paths.get(each["source-id"], ""),
                transform=each["transform"],
            )
            for spec in specs
            for each in spec
        ]

    @cached_property
    def _paths(self) -> dict[int, str]:
        return {id_: path for id_, path, _ in schema_columns(self.schema())}


@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table's metadata at one moment.

    :param snapshot: head of main, as text; None for a table without snapshots.
    :param rows: records of data files less the rows that position deletes and deletion vectors remove.
    :param data_files: number of data files.
    :param data_bytes: bytes of data and delete files, ``total-files-size`` of the head.
    :param delete_files: number of delete files and deletion vectors.
    :param deleted_rows: rows that position deletes and deletion vectors remove.
    :param equality_deletes: keys in equality delete files, a debt that readers pay until a compaction.
    :param manifests: number of manifests of the head.
    :param snapshots: number of snapshots in the metadata.
    """

    snapshot: str | None = None
    rows: int = 0
    data_files: int = 0
    data_bytes: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    equality_deletes: int = 0
    manifests: int = 0
    snapshots: int = 0


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """One version of a table's metadata; a format may have more of it.

    :param snapshots: by id, those of other branches and of none as well.
    :param references: branches and tags by name.
    :param main_log: when main came to be at which snapshot, oldest first: epoch milliseconds and id.
    :param read_shape: works out schemas and partitions, which few ask for.
    """

    name: str
    uuid: str
    location: str
    format_version: int
    properties: Mapping[str, str]
    snapshots: Mapping[str, Snapshot]
    references: Mapping[str, Reference]
    main_log: Sequence[tuple[int, str]] = ()
    read_shape: Callable[[], TableShape] = field(repr=False, compare=False)

    @cached_property
    def shape(self) -> TableShape:
        """The table without its history."""
        return self.read_shape()

    def head(self, branch: str = MAIN) -> str | None:
        """Return the snapshot of a branch or tag; None where it is missing."""
        ref = self.references.get(branch)
        return ref.snapshot if ref is not None else None

    def heads(self) -> dict[str, str]:
        """Return the snapshot ids of all branches and tags."""
        return {name: ref.snapshot for name, ref in self.references.items()}

    def newest(self, branch: str = MAIN) -> Snapshot | None:
        """Return the snapshot at the head of a branch; None where there is none."""
        head = self.head(branch)
        return None if head is None else self.snapshots.get(head)

    def ancestors(self, branch: str = MAIN) -> Iterator[Snapshot]:
        """Yield the snapshots of a branch, newest first, as far back as they are not expired.

        :raises BrokenMetadataError: a snapshot is its own ancestor.
        """
        return ancestors(self.snapshots, self.head(branch), name=self.name)

    def branch_histories(self) -> list[list[Snapshot]]:
        """Return the snapshots of each branch, newest first."""
        return histories_of(self.snapshots, self.references.values())

    def total(self, name: str, branch: str = MAIN) -> int:
        """Return a ``total-*`` number of a head's summary; 0 where it is not said, or is no number."""
        newest = self.newest(branch)
        return count_of(newest.summary, name) if newest is not None else 0

    def state(self, manifests: Callable[[str], int], branch: str = MAIN) -> TableState:
        """Return the counts of a branch's head.

        Rows are live rows as far as position deletes go: ``total-records`` counts records of data files before deletes.

        :param manifests: counts the manifests of a snapshot, which a small file lists.
        """
        head = self.newest(branch)
        if head is None:
            return TableState(snapshots=len(self.snapshots))
        deleted = self.total("total-position-deletes", branch)
        return TableState(
            snapshot=head.id,
            rows=self.total("total-records", branch) - deleted,
            data_files=self.total("total-data-files", branch),
            data_bytes=self.total("total-files-size", branch),
            delete_files=self.total("total-delete-files", branch),
            deleted_rows=deleted,
            equality_deletes=self.total("total-equality-deletes", branch),
            manifests=manifests(head.id),
            snapshots=len(self.snapshots),
        )
