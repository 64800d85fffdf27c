"""Decide which snapshots an expiry keeps and why, by Iceberg's own rule on plain facts. Standard library only.

The rule is ``org.apache.iceberg.RemoveSnapshots`` of Iceberg 1.12: the worker's dry run, the driver's decision whether
anything is due, and the names of the refs in the report come from here; the expiry itself is Iceberg's. Ours alone is
that restored Flink jobs and sinks of Kafka Connect find their last commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.durations import epoch_millis, span_millis
from airflow_lake_provider.contracts.errors import BrokenMetadataError, UnsupportedError
from airflow_lake_provider.contracts.property_values import number_or, number_property
from airflow_lake_provider.contracts.specs.maintenance import FLINK_JOB_AGE, MINIMUM_AGE, SnapshotExpirySpec
from airflow_lake_provider.contracts.table_facts import MAIN, Reference, Snapshot, TableFacts, ancestors, histories_of
from airflow_lake_provider.contracts.table_properties import STAGE_BRANCH_PREFIX
from airflow_lake_provider.iceberg.streaming_writers import (
    kept_for_flink,
    kept_for_sinks,
    newest_of_jobs,
    newest_of_sinks,
    without_expiry_of_version_3,
)

FOREVER = 2**63 - 1
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
# Iceberg's own, TableProperties of 1.12.
_DEFAULT_LEAST = 1
_DEFAULT_AGE = 5 * 24 * 60 * 60 * 1000
# Jobs that a sentence has.
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class RetentionRequest:
    """Retention that a run asks for.

    :param expire_before: epoch milliseconds; younger snapshots stay.
    :param retain_last: ancestors of each branch that stay in any case.
    :param expire_stages_before: epoch milliseconds; stage branches left over from before go.
    :param now: epoch milliseconds, against which ages of refs count.
    :param default_max_ref_age: the table's ``history.expire.max-ref-age-ms``.
    :param expire_flink_before: epoch milliseconds; Flink jobs and sinks whose last commit is from before count as gone.
    :param held: which settings are the DAG's, the table's and defaults.
    """

    expire_before: int
    retain_last: int
    expire_stages_before: int
    now: int
    default_max_ref_age: int = FOREVER
    expire_flink_before: int = 0
    held: str = ""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """The answer.

    :param expired: snapshot ids that go, oldest first.
    :param kept_by_refs: snapshot ids past the age that stay, with the names of the refs that keep them.
    :param aged_refs: branches and tags that go because of their own or the table's maximum age.
    :param stage_branches: left-over stage branches that go, sorted.
    :param kept_for_flink: snapshot ids that stay only for Flink jobs, with the ids of those jobs.
    :param kept_for_sinks: snapshot ids that stay only for sinks of Kafka Connect, with the names of those sinks.
    """

    expired: tuple[str, ...]
    kept_by_refs: dict[str, str]
    aged_refs: tuple[str, ...]
    stage_branches: tuple[str, ...]
    kept_for_flink: dict[str, str] = field(default_factory=dict)
    kept_for_sinks: dict[str, str] = field(default_factory=dict)


def retention_of(
    facts: TableFacts, spec: SnapshotExpirySpec, now: datetime
) -> tuple[RetentionRequest, Retention, str | None]:
    """Return what an expiry asks of a table, what it keeps, and which Flink jobs it harms.

    :return: None for the jobs where none is harmed.
    :raises BrokenMetadataError: a setting of the table is no number that Iceberg takes.
    :raises UnsupportedError: a Flink job could not commit any more, and the author has not allowed that.
    """
    request = request_for(spec, facts.properties, now)
    retention = work_out(facts.snapshots.values(), facts.references.values(), request)
    harm = without_expiry_of_version_3(
        facts.format_version, facts.branch_histories(), frozenset(retention.expired), request.expire_flink_before
    )
    if harm is not None and not spec.allow_other_writers:
        raise UnsupportedError(f"{facts.name}: {harm}")
    return request, retention, harm


def work_out(snapshots: Iterable[Snapshot], refs: Iterable[Reference], request: RetentionRequest) -> Retention:
    """Decide which snapshots, refs and stage branches go.

    Snapshots that no ref reaches go by age alone.
    """
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    named = {ref.name: ref for ref in refs}
    stage = left_over_stage_branches(by_id, named, request.expire_stages_before)
    live = [r for r in named.values() if r.name not in stage and not _aged(r, by_id, request)]
    keepers: dict[str, set[str]] = {}
    # A hundred branches share most of a history, which is walked once: a snapshot has the same ancestors on each.
    reached: set[str] = set()
    for ref in live:
        for kept in _kept_by(ref, by_id, request):
            keepers.setdefault(kept, set()).add(ref.name)
        reached |= {s.id for s in ancestors(by_id, ref.snapshot, reached)} if ref.is_branch else set()
    reached |= {ref.snapshot for ref in live}
    young = {s.id for s in by_id.values() if s.id not in reached and s.at >= request.expire_before}
    histories = list(histories_of(by_id, live)) if _has_streams(by_id, request) else []
    for_flink = kept_for_flink(histories, request.expire_flink_before)
    for_sinks = kept_for_sinks(histories, request.expire_flink_before)
    stay = {*keepers, *young, *for_flink, *for_sinks}
    gone = (s for s in by_id.values() if s.id not in stay)
    return Retention(
        expired=tuple(s.id for s in sorted(gone, key=lambda s: (s.at, s.id))),
        kept_by_refs={
            id_: ", ".join(sorted(names))
            for id_, names in keepers.items()
            if id_ in by_id and by_id[id_].at < request.expire_before
        },
        aged_refs=tuple(sorted(named.keys() - {r.name for r in live} - set(stage))),
        stage_branches=stage,
        kept_for_flink={id_: ", ".join(sorted(jobs)) for id_, jobs in for_flink.items() if id_ not in keepers},
        kept_for_sinks={id_: ", ".join(sorted(names)) for id_, names in for_sinks.items() if id_ not in keepers},
    )


def _has_streams(by_id: Mapping[str, Snapshot], request: RetentionRequest) -> bool:
    everything = [list(by_id.values())]
    since = request.expire_flink_before
    return bool(newest_of_jobs(everything, since) or newest_of_sinks(everything, since))


def left_over_stage_branches(
    by_id: Mapping[str, Snapshot], refs: Mapping[str, Reference], expire_before: int
) -> tuple[str, ...]:
    """Return the stage branches whose run was over, or had begun, before ``expire_before``.

    A branch without commits of its own points at an ancestor of main, whose age says nothing about the branch: it was
    made before main moved on, so the next snapshot of main dates it. At main's head nothing dates it, and it keeps
    nothing either, so it stays.

    :param expire_before: epoch milliseconds.
    """
    main = [each.id for each in ancestors(by_id, refs[MAIN].snapshot)] if MAIN in refs else []
    next_on_main: dict[str, str | None] = dict(zip(main, [None, *main], strict=False))

    def is_old(ref: Reference) -> bool:
        dated_by = next_on_main.get(ref.snapshot, ref.snapshot)
        return dated_by is not None and dated_by in by_id and by_id[dated_by].at < expire_before

    staged = (r for r in refs.values() if r.is_branch and r.name.startswith(STAGE_BRANCH_PREFIX))
    return tuple(sorted(ref.name for ref in staged if is_old(ref)))


def _aged(ref: Reference, by_id: Mapping[str, Snapshot], request: RetentionRequest) -> bool:
    if ref.name == MAIN:
        return False
    if ref.snapshot not in by_id:
        return True
    most = ref.max_ref_age if ref.max_ref_age is not None else request.default_max_ref_age
    return request.now - by_id[ref.snapshot].at > most


def _kept_by(ref: Reference, by_id: Mapping[str, Snapshot], request: RetentionRequest) -> Iterator[str]:
    yield ref.snapshot
    # A tag keeps its snapshot only, the tag of an incremental consumer (lake.consumer.*) like any other.
    if not ref.is_branch:
        return
    least = ref.min_snapshots if ref.min_snapshots is not None else request.retain_last
    since = request.now - ref.max_snapshot_age if ref.max_snapshot_age is not None else request.expire_before
    for count, ancestor in enumerate(ancestors(by_id, ref.snapshot)):
        if count >= least and ancestor.at < since:
            return
        yield ancestor.id


def request_for(spec: SnapshotExpirySpec, properties: Mapping[str, str], now: datetime) -> RetentionRequest:
    """Return what holds, in epoch milliseconds, rounded down as Iceberg is given them.

    :param properties: of the table; its owner's settings hold where the DAG names no value, else Iceberg's default.
    :raises BrokenMetadataError: a setting of the table is no number that Iceberg takes.
    """
    least = _setting(spec.table, properties, MIN_SNAPSHOTS)
    age = _setting(spec.table, properties, MAX_SNAPSHOT_AGE)
    ref_age = _setting(spec.table, properties, MAX_REF_AGE)
    limits = [
        _held("retain_last", spec.retain_last, MIN_SNAPSHOTS, least, _DEFAULT_LEAST),
        _held("older_than", spec.expire_before, MAX_SNAPSHOT_AGE, age, "P5D"),
    ]
    flink = spec.expire_flink_jobs_before
    return RetentionRequest(
        expire_flink_before=max(0, epoch_millis(now - FLINK_JOB_AGE if flink is None else flink)),
        expire_before=_cutoff(spec, _DEFAULT_AGE if age is None else age),
        retain_last=spec.retain_last or least or _DEFAULT_LEAST,
        expire_stages_before=epoch_millis(spec.expire_stage_branches_before),
        now=epoch_millis(now),
        default_max_ref_age=FOREVER if ref_age is None else ref_age,
        held=", ".join(limits),
    )


def expirable_snapshots(
    facts: TableFacts, now: datetime, older_than: timedelta | None = None, retain_last: int | None = None
) -> int:
    """Return how many snapshots an expiry would remove.

    :param older_than: age from which on they go; None takes the table's own setting, or Iceberg's, and a day at least.
    :param retain_last: of each branch; None likewise.
    """
    if not facts.snapshots:
        return 0
    moment = epoch_millis(now)
    own_age = max(number_or(facts.properties, MAX_SNAPSHOT_AGE, _DEFAULT_AGE), span_millis(MINIMUM_AGE))
    before = max(0, moment - (own_age if older_than is None else span_millis(older_than)))
    has_ages_of_refs = any(ref.max_snapshot_age is not None for ref in facts.references.values())
    if not has_ages_of_refs and min(each.at for each in facts.snapshots.values()) >= before:
        return 0
    request = RetentionRequest(
        expire_before=before,
        retain_last=retain_last or number_or(facts.properties, MIN_SNAPSHOTS, _DEFAULT_LEAST),
        expire_stages_before=0,
        now=moment,
        default_max_ref_age=number_or(facts.properties, MAX_REF_AGE, FOREVER),
        expire_flink_before=max(0, moment - span_millis(FLINK_JOB_AGE)),
    )
    return len(work_out(facts.snapshots.values(), facts.references.values(), request).expired)


def _cutoff(spec: SnapshotExpirySpec, age: int) -> int:
    if spec.expire_before is not None:
        return epoch_millis(spec.expire_before)
    asked = epoch_millis(spec.asked_at) if spec.asked_at is not None else 0
    # No snapshot is from before 1970.
    return max(0, asked - max(age, span_millis(spec.minimum_age)))


def check_settings(table: str, properties: Mapping[str, str]) -> None:
    """Read all that an expiry reads.

    :param properties: of the table.
    :raises BrokenMetadataError: a setting of the table is no number that Iceberg takes.
    """
    for name in (MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE, MAX_REF_AGE):
        _setting(table, properties, name)


def _setting(table: str, properties: Mapping[str, str], name: str) -> int | None:
    value = number_property(table, properties, name)
    if value == 0:
        raise BrokenMetadataError(f"{table}: property {name!r} is 0, expected a number above 0, as Iceberg takes it")
    return value


def _held(argument: str, asked: object, name: str, own: int | None, default: object) -> str:
    """Say by whom a value was set."""
    if asked is not None:
        return f"{argument} is the DAG's" + (f" and not {own:,}, the table's {name}" if own is not None else "")
    return f"{argument} is {own:,}, the table's {name}" if own is not None else f"{argument} is the default {default}"


def _writers(kept: Mapping[str, str]) -> str:
    writers = sorted({writer for names in kept.values() for writer in names.split(", ")})
    return ", ".join(writers[:_NAMED]) + (f" and {len(writers) - _NAMED} others" if len(writers) > _NAMED else "")


def expiry_sentence(retention: Retention, request: RetentionRequest) -> str:
    """Say what goes and what keeps the rest, and whose settings these are."""
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=request.expire_before)).isoformat(
        timespec="seconds"
    )
    parts = [f"{len(retention.expired):,} snapshots from before {moment} are not needed by any branch or tag"]
    if retention.kept_by_refs:
        parts.append(
            f"{len(retention.kept_by_refs):,} older ones are kept by refs or retain_last={request.retain_last}"
        )
    if retention.kept_for_flink:
        kept = retention.kept_for_flink
        parts.append(f"{len(kept):,} are kept so that Flink can restore jobs {_writers(kept)}")
    if retention.kept_for_sinks:
        kept = retention.kept_for_sinks
        parts.append(f"{len(kept):,} are kept so that Kafka Connect finds what sinks {_writers(kept)} have committed")
    if retention.aged_refs:
        parts.append(f"refs past their own maximum age: {', '.join(retention.aged_refs)}")
    if retention.stage_branches:
        parts.append(f"left-over stage branches: {', '.join(retention.stage_branches)}")
    if request.held:
        parts.append(request.held)
    return "; ".join(parts)
