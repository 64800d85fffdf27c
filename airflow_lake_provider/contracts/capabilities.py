"""Capabilities of table formats, as data: what each can do, from which format version, and why not where it cannot.

A spec says what it needs (:attr:`.JobSpec.needs`). A worker refuses what the format lacks before Spark starts, a driver
before it does anything. The behaviour suite and the page of the reference are made from the same declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.capability_names import CAPABILITIES, Capability
from airflow_lake_provider.contracts.errors import BrokenMetadataError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.property_values import shown, whole_number


class GapKind(str, Enum):
    """Whose a gap is: ours to close, another project's, or nobody's."""

    OURS = "ours"
    UPSTREAM = "upstream"
    NEVER = "never"


@dataclass(frozen=True)
class Gap:
    """A capability that a format, or a version of it, lacks.

    :param reason: a clause that says why.
    """

    kind: GapKind
    reason: str


@dataclass(frozen=True, kw_only=True)
class Support:
    """A capability that a format has.

    :param since: version of the format from which it holds.
    :param until: version up to which it holds; None for no end.
    :param otherwise: why other versions lack it; None where there are none.
    """

    since: int = 1
    until: int | None = None
    otherwise: Gap | None = None

    def __post_init__(self) -> None:
        if self.otherwise is None and (self.since > 1 or self.until is not None):
            raise ValueError(f"other versions than {self.since} to {self.until} lack it: say why in otherwise")

    def holds(self, version: int) -> bool:
        """Tell whether a version of the format has it."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Answer about one use of one operator, or one capability, for a table.

    :param use: strategy or other argument that the answer is about.
    :param reason: why not, or what to know.
    """

    operator: str
    use: str
    possible: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class FormatCapabilities:
    """A table format as both sides know it.

    :param title: name in sentences.
    :param driver: ``package.module:Class`` of its :class:`.TableFormat`, which only drivers import.
    :param worker: ``package.module:Class`` of its :class:`.WorkerCatalog`, which only workers import; empty for a
        format whose tables are not read without Spark.
    :param versions: of the format, oldest first.
    :param declared: what it has and lacks; what it does not name it lacks.
    :param own: capabilities beside the shared ones: strategies of its own, and what does not go together in it.
    :param numbers_snapshots: whether ids of snapshots are whole numbers; else they are any text.
    :param tried: capabilities that the behaviour tests try with tables of a version; of a version that it does not
        name, they try all.
    :param reserved_columns: names of columns of its own, in lower case.
    :param transforms: of a column that a layout may partition or sort by, in lower case.
    """

    name: str
    title: str
    driver: str
    worker: str = ""
    versions: tuple[int, ...] = (1,)
    declared: Mapping[str, Support | Gap]
    own: Mapping[str, Capability] = field(default_factory=dict)
    numbers_snapshots: bool = False
    tried: Mapping[int, frozenset[str]] = field(default_factory=dict)
    reserved_columns: frozenset[str] = frozenset()
    transforms: frozenset[str] = frozenset(("identity",))

    def __post_init__(self) -> None:
        if shared := sorted(self.own.keys() & CAPABILITIES.keys()):
            raise ValueError(f"table format {self.name} calls {shared} its own, which all formats have by that name")
        if unknown := sorted(self.declared.keys() - self.names.keys()):
            raise ValueError(f"table format {self.name} declares {unknown}, which are no capabilities")
        for name, capability in self.own.items():
            if unknown := sorted(capability.asked_with - self.names.keys()):
                raise ValueError(
                    f"table format {self.name} asks for {name!r} with {unknown}, which are no capabilities"
                )

    @property
    def names(self) -> dict[str, Capability]:
        """Capabilities that it may have: the shared ones, and its own."""
        return {**CAPABILITIES, **self.own}

    def asked_by(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Return names of capabilities, with those of its own that are asked for where all of some others are."""
        named = tuple(needs)
        together = (name for name, each in self.own.items() if each.asked_with and each.asked_with <= set(named))
        return (*named, *together)

    def gap(self, name: str, version: int | None = None) -> Gap | None:
        """Return why a capability is lacking; None where it is there.

        :param version: of the format; None for whether any version has it.
        :raises KeyError: there is no such capability.
        """
        sentence = (self.own.get(name) or known_capabilities()[name]).sentence
        declared = self.declared.get(name) or Gap(GapKind.OURS, f"nobody has written it: {sentence}")
        if isinstance(declared, Gap):
            return declared
        return None if version is None or declared.holds(version) else declared.otherwise

    def is_tried(self, name: str, version: int) -> bool:
        """Tell whether the behaviour tests try a capability with tables of a version that has it."""
        return version not in self.tried or name in self.tried[version]

    def lacks(self, name: str, version: int) -> str | None:
        """Return why tables of a version lack a capability, as a clause that says how they get it; None where they have
        it.
        """
        if (gap := self.gap(name, version)) is None:
            return None
        later = next((each for each in self.versions if each > version and self.gap(name, each) is None), None)
        if later is None:
            return gap.reason
        by_operator = " with LakeTableUpgradeOperator" if self.gap("format-upgrade") is None else ""
        return f"{gap.reason}; the table has version {version}, upgrade it to {later}{by_operator}"

    def refuse_lacking(self, table: str, needs: Iterable[str]) -> None:
        """Refuse what no version of the format can do.

        :param table: for the message.
        :param needs: names of capabilities.
        :raises UnsupportedError: naming the capability, why it is lacking, and the nearest that there are; or a need
            that is no capability.
        """
        capabilities = {**known_capabilities(), **self.own}
        for name in self.asked_by(needs):
            if name not in capabilities:
                raise UnsupportedError(
                    f"{table}: {name!r} is asked of its format and is no capability{nearest(name, capabilities)}"
                )
            if (gap := self.gap(name)) is not None:
                nearby = self._nearest(capabilities[name].group)
                raise UnsupportedError(
                    f"{table}: table format {self.name!r} lacks {name!r}, {gap.reason}; it has {nearby}"
                )

    def refuse_without_worker(self, what: str) -> None:
        """Refuse what is done without Spark, where the format has no part for workers.

        :param what: begins the message.
        :raises UnsupportedError: saying what there is in its place.
        """
        if not self.worker:
            raise UnsupportedError(
                f"{what}: table format {self.name!r} has no part for workers, so nobody can watch, check or change its "
                "tables without Spark. Upserts, row changes, compaction and expiry go on in Spark; for the rest, name "
                "a class in 'worker' of the format's declaration"
            )

    def verdicts(self, version: int) -> list[Verdict]:
        """Return what a version of the format can do, and why not, whatever a table of it is like."""
        verdicts = []
        for name, capability in self.names.items():
            why = self.lacks(name, version)
            verdicts.append(
                Verdict(
                    operator=capability.group, use=name, possible=why is None, reason=why or f"to {capability.sentence}"
                )
            )
        return verdicts

    def refuse_transforms(self, table: str, transforms: Iterable[str]) -> None:
        """Refuse a layout by transforms that the format does not have.

        :param table: for the message.
        :raises UnsupportedError: naming them, and those that there are.
        """
        if unknown := sorted(set(transforms) - self.transforms):
            raise UnsupportedError(
                f"{table}: table format {self.name!r} partitions and sorts by no {', '.join(unknown)}; it takes "
                f"{', '.join(sorted(self.transforms))}"
            )

    def is_snapshot_id(self, text: str) -> bool:
        """Tell whether a text may be the id of a snapshot: numbers have one form, without leading zeros."""
        return str(whole_number(text)) == text if self.numbers_snapshots else bool(text)

    def refuse_broken_start(self, table: str, source_name: str, start: str) -> None:
        """Refuse the position of a source that names what can be no snapshot of it.

        :param table: that has the position.
        :raises BrokenMetadataError: saying what applies the source anew.
        """
        if not self.is_snapshot_id(start):
            raise BrokenMetadataError(
                f"{table}: the position of source {source_name!r} names snapshot {shown(start)}, expected a snapshot "
                "id; run it with full_refresh=True"
            )

    def refuse_snapshot_id(self, table: str, what: str, given: str) -> None:
        """Refuse what can be no id of a snapshot.

        :param table: for the message.
        :param what: argument that names it.
        :raises InvalidSpecError: saying what an id is.
        """
        if not self.is_snapshot_id(given):
            expected = "digits as text or a whole number" if self.numbers_snapshots else "a text"
            raise InvalidSpecError(
                f"{table}: {what} must be a snapshot id of {self.title}, {expected}, got {shown(given)}"
            )

    def _nearest(self, group: str) -> str:
        supported = [each for each, declared in self.declared.items() if isinstance(declared, Support)]
        alike = [each for each in supported if self.names[each].group == group]
        return ", ".join(alike or supported) or "none at all"


_NO_DELETES = Gap(GapKind.NEVER, "format version 1 has no deletes")
_NO_LINEAGE = Gap(GapKind.NEVER, "changes are told by row lineage, which begins with format version 3")
_NO_LOOK = Gap(
    GapKind.NEVER,
    "strategy='equality' looks at no row of the table, so it can neither keep nor compare a value of one: it takes "
    "merge_engine='deduplicate' without ignore_stale, deletes='soft', missing_columns='keep' and ordering='key'; leave "
    "strategy at 'auto' for these",
)
_OTHER_DELETES = Gap(GapKind.NEVER, "versions before 3 have position delete files, or none")
_FROM_2, _FROM_3 = Support(since=2, otherwise=_NO_DELETES), Support(since=3, otherwise=_NO_LINEAGE)

_IN_EVERY_VERSION = (
    *("upsert", "append", "overwrite-partitions", "create-table", "schema-evolution", "soft-deletes"),
    *("kept-values", "change-events", "lake-table-source", "merge-deduplicate", "merge-first-row"),
    *("merge-partial-update", "merge-aggregation", "merge-history", "strategy-copy-on-write", "strategy-merge"),
    *("branches", "audits", "tags"),
    *("rollback", "consumer-tags", "compaction", "compaction-sort", "compaction-zorder"),
    *("compaction-hilbert", "file-lists", "statistics"),
    *("snapshot-expiry", "remove-orphans", "health", "metadata-changes", "format-upgrade"),
)
ICEBERG = FormatCapabilities(
    name="iceberg",
    title="Iceberg",
    driver="airflow_lake_provider.spark_jobs.formats.iceberg.iceberg_format:IcebergFormat",
    worker="airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog:IcebergCatalog",
    versions=(1, 2, 3),
    declared={
        # By name: a capability that is added for another format is not Iceberg's.
        **dict.fromkeys(_IN_EVERY_VERSION, Support()),
        "strategy-positions": _FROM_2,
        "strategy-equality": _FROM_2,
        "equality-with-kept-values": _NO_LOOK,
        "delete-rows": _FROM_2,
        "update-rows": _FROM_2,
        "row-expiry": _FROM_2,
        "erasure-proof": _FROM_2,
        "read-changes": _FROM_3,
        "changelog": Gap(GapKind.OURS, "mode='net' gives the sum of all steps"),
        "row-lineage": _FROM_3,
        "deletion-vectors": Support(since=3, otherwise=_OTHER_DELETES),
        "metadata-changes-on-worker": Support(
            since=2,
            until=2,
            otherwise=Gap(GapKind.UPSTREAM, "outside of REST catalogs PyIceberg writes metadata of version 2 alone"),
        ),
    },
    own={
        "equality-with-kept-values": Capability(
            "strategies",
            "keep or compare values of the table with strategy='equality'",
            asked_with=frozenset({"strategy-equality", "kept-values"}),
        ),
    },
    numbers_snapshots=True,
    # Version 1 has the code of version 2, and its upserts are tried.
    tried={
        1: frozenset(
            (
                *("upsert", "create-table", "merge-deduplicate", "strategy-copy-on-write", "strategy-merge"),
                "audits",
            )
        )
    },
    # org.apache.iceberg.MetadataColumns: the first of every table, the last three of a table's changes.
    reserved_columns=frozenset(
        (
            *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"),
            *("_change_type", "_change_ordinal", "_commit_snapshot_id"),
        )
    ),
    # As its Spark catalog reads them.
    transforms=frozenset(
        (
            *("identity", "year", "years", "month", "months", "day", "days", "date", "hour", "hours", "date_hour"),
            *("bucket", "truncate"),
        )
    ),
)
# A format is registered by one entry.
FORMATS: dict[str, FormatCapabilities] = {ICEBERG.name: ICEBERG}


def known_capabilities() -> dict[str, Capability]:
    """Return the shared capabilities, then those that a format of this version calls its own."""
    return {**CAPABILITIES, **{name: each for one in FORMATS.values() for name, each in one.own.items()}}


def declared_format(name: str) -> FormatCapabilities:
    """Return a table format by its name.

    :raises UnsupportedError: this version does not know it; naming those that it knows.
    """
    if name not in FORMATS:
        meant = nearest(name, FORMATS)
        raise UnsupportedError(f"table format {name!r} is not known; this version knows {', '.join(FORMATS)}{meant}")
    return FORMATS[name]
