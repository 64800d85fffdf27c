"""Data of the page: the state of all tables, the newest look at each, and what was done to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from airflow_lake_provider.maintenance.trend import name_in_entry
from airflow_lake_provider.plugins.lake_page.entries import Due, Fields, Lag, Night, Outcome, Row, Trend
from airflow_lake_provider.plugins.lake_page.stored_entries import Look, Place, StoredEntries

# A look at all tables that is older has missed a night.
OLD = timedelta(hours=36)
# Verdicts whose outcomes are read: for all tables, and for the history of one.
_NIGHTS, _NIGHTS_OF_A_TABLE = 8, 20
_RED = ("failed",)
# Outcomes after which an action is not due any more.
_ENDED = ("done", "nothing-due")


@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table as the newest look has seen it.

    :param row: what was seen.
    :param look: that has seen it.
    :param outcomes: of the newest run that did anything to it.
    :param night: that run.
    :param trend: after its last runs.
    :param is_gone: whether a newer look, which would have seen it, has not.
    :param now: against which ages count.
    """

    row: Row
    look: Look
    outcomes: tuple[Outcome, ...] = ()
    night: tuple[Place, Night] | None = None
    trend: Trend | None = None
    is_gone: bool = False
    now: datetime

    @property
    def conn_id(self) -> str:
        """Connection of its catalog."""
        return self.look.header.conn_id

    @property
    def namespace(self) -> str:
        """Namespace of its name."""
        return self.row.table.rpartition(".")[0]

    @property
    def seen_at(self) -> datetime:
        """Moment of the look."""
        return self.look.header.at

    @property
    def is_old(self) -> bool:
        """True where the newest look is old."""
        return self.now - self.seen_at > OLD

    @property
    def has_failed(self) -> bool:
        """True where a person has to look: it cannot be read, or its maintenance failed."""
        return bool(self.row.error) or any(each.outcome in _RED for each in self.outcomes)

    @property
    def is_stale(self) -> bool:
        """True where its rows are older than its policy allows."""
        limit, at = self.row.fresh_within, self.row.data_at
        return limit is not None and at is not None and self.now - at > limit

    @property
    def is_late(self) -> bool:
        """True where a consumer is behind by more than the policy allows."""
        return any(each.is_late for each in self.row.consumers)

    @property
    def is_unmaintained(self) -> bool:
        """True where nothing was ever done to it, as far as its snapshots and the newest runs say."""
        return self.row.maintained_at is None and not self.outcomes

    @property
    def is_maintained_since(self) -> bool:
        """True where the newest run came after the look, and ended all that was due: the look is of before."""
        has_ended = any(each.outcome in _ENDED for each in self.outcomes)
        return self._is_of_before and has_ended and not self.has_failed and not self.due

    @property
    def _is_of_before(self) -> bool:
        """True where a run came after the look."""
        return self.night is not None and self.night[1].at > self.seen_at

    @property
    def due(self) -> tuple[Due, ...]:
        """Actions that were due when it was looked at, and that no run has ended since."""
        left = {each.action for each in self.outcomes if each.outcome not in _ENDED}
        ended = {each.action for each in self.outcomes} - left if self._is_of_before else set()
        return tuple(each for each in self.row.due if each.action not in ended)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of its states, by which the page filters."""
        named = {
            "failed": self.has_failed,
            "due": bool(self.due),
            "stale": self.is_stale,
            "late": self.is_late,
            "unmaintained": self.is_unmaintained,
            "paused": self.row.is_paused,
            "gone": self.is_gone,
        }
        return tuple(name for name, holds in named.items() if holds)

    @property
    def order(self) -> tuple[bool, bool, bool, int, str]:
        """Sorts tables, failures and the worst first; a score of before the newest run comes after all others."""
        score = -1 if self.row.score is None else self.row.score
        return self.is_gone, not self.has_failed, self.is_maintained_since, score, self.row.table


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """All tables that a user may see.

    :param tables: the worst first.
    :param nights: the newest run of each verdict, newest first.
    :param notes: of entries that could not be read, and who has left them.
    :param failed: newest instances of plans and verdicts that have failed.
    :param left_out: tables that plans have looked at and left no row of.
    :param dag_ids: whose runs the user may see.
    :param now: against which ages count.
    """

    tables: tuple[TableState, ...] = ()
    nights: tuple[tuple[Place, Night], ...] = ()
    notes: tuple[tuple[Place, str], ...] = ()
    failed: tuple[Place, ...] = ()
    left_out: int = 0
    dag_ids: Collection[str]
    now: datetime

    @property
    def late(self) -> tuple[tuple[TableState, Lag], ...]:
        """Consumers that are behind by more than the policy allows: a lost place first, then the one most behind."""
        behind = [
            (table, lag) for table in self.tables if not table.is_gone for lag in table.row.consumers if lag.is_late
        ]
        return tuple(sorted(behind, key=lambda each: each[1].behind or timedelta.max, reverse=True))

    def failed_tables(self, place: Place) -> tuple[str, ...]:
        """Return the tables that made the run of a verdict red."""
        return next((night.failed for each, night in self.nights if each == place), ())

    @property
    def counts(self) -> dict[str, int]:
        """Number of tables in each state."""
        counts: dict[str, int] = {}
        for table in self.tables:
            for state in table.states:
                counts[state] = counts.get(state, 0) + 1
        return counts


@dataclass(frozen=True, kw_only=True)
class TablePage:
    """One table.

    :param details: of the look, beside its row; empty where it has left none.
    :param history: outcomes of its last runs, newest first.
    :param dag_ids: whose runs the user may see.
    """

    state: TableState
    details: Fields
    history: tuple[tuple[Place, Outcome], ...] = ()
    notes: tuple[tuple[Place, str], ...] = field(default=())
    dag_ids: Collection[str]


def read_fleet(
    session: Session, dag_ids: Collection[str], now: datetime, assets: Collection[tuple[str, str]] = ()
) -> Fleet:
    """Return the state of all tables.

    :param session: of Airflow's database.
    :param dag_ids: whose entries the user may read.
    :param now: UTC.
    :param assets: authority and table of each asset that the user may read.
    """
    entries = StoredEntries(session, dag_ids, now, assets)
    holding, replaced = entries.looks()
    nights = entries.nights(_NIGHTS)
    tables = _states(entries, holding, replaced, nights)
    # What is of more than one table is for who may read the DAG.
    mine = [look for look in holding if entries.may_read(look.place)]
    my_nights = [each for each in nights if entries.may_read(each[0])]
    newest = {(place.dag_id, place.task_id): (place, night) for place, night in reversed(my_nights)}
    tasks = {(look.place.dag_id, look.place.task_id) for look in mine} | newest.keys()
    removed = entries.removed({dag_id for dag_id, _ in tasks})
    return Fleet(
        tables=tuple(sorted(tables.values(), key=lambda each: each.order)),
        nights=tuple(sorted(newest.values(), key=lambda each: each[1].at, reverse=True)),
        notes=_notes(entries),
        failed=tuple(entries.failed_tasks([each for each in tasks if each[0] not in removed])),
        left_out=sum(look.header.left_out for look in mine),
        dag_ids=dag_ids,
        now=now,
    )


def read_table(
    session: Session,
    dag_ids: Collection[str],
    now: datetime,
    conn_id: str,
    table: str,
    assets: Collection[tuple[str, str]] = (),
) -> TablePage | None:
    """Return one table; None where no look that the user may see has seen it.

    :param session: of Airflow's database.
    :param dag_ids: whose entries the user may read.
    :param now: UTC.
    :param conn_id: connection of the catalog; empty for any.
    :param table: whole name.
    :param assets: authority and table of each asset that the user may read.
    """
    entries = StoredEntries(session, dag_ids, now, assets)
    holding, replaced = ([look for look in looks if conn_id in ("", look.header.conn_id)] for looks in entries.looks())
    nights = entries.nights(_NIGHTS_OF_A_TABLE)
    states = _states(entries, holding, replaced, nights, table)
    if (state := next(iter(states.values()), None)) is None:
        return None
    history = tuple(
        (place, task)
        for place, night in nights
        if night.conn_id == state.conn_id
        for task in night.tasks
        if task.table == table
    )
    return TablePage(
        state=state,
        details=entries.details(state.look, state.row),
        history=history,
        notes=_notes(entries),
        dag_ids=dag_ids,
    )


def _states(
    entries: StoredEntries,
    holding: Sequence[Look],
    replaced: Sequence[Look],
    nights: Sequence[tuple[Place, Night]],
    only: str | None = None,
) -> dict[tuple[str, str], TableState]:
    """Return the state of each table by its connection and name.

    :param holding: looks, oldest first.
    :param replaced: earlier ones: what only these have seen is gone.
    :param only: name of one table; None for all.
    """
    rows: dict[tuple[str, str], tuple[Look, Row]] = {}
    for look, row in entries.rows(sorted([*replaced, *holding], key=lambda each: each.header.at)):
        if only in (None, row.table):
            rows[look.header.conn_id, row.table] = look, row
    # Where a plan left tables out, or its rows cannot be read, nobody knows which of these are gone.
    cut = {look.scope for look in holding if look.header.left_out or look.place in entries.incomplete}
    older = {look for look in replaced if look.scope not in cut}

    def is_gone(seen: Look, table: str) -> bool:
        return seen in older or any(
            look.header.at > seen.header.at
            and look.header.conn_id == seen.header.conn_id
            and entries.would_show(look, table)
            for look in holding
        )

    done, trends = _newest_outcomes(nights), entries.trends(nights)
    return {
        key: TableState(
            row=row,
            look=look,
            outcomes=tuple(done[key][1]) if key in done else (),
            night=done[key][0] if key in done else None,
            trend=trends.get((key[0], name_in_entry(key[1]))),
            is_gone=is_gone(look, row.table),
            now=entries.now,
        )
        for key, (look, row) in rows.items()
    }


def _newest_outcomes(
    nights: Sequence[tuple[Place, Night]],
) -> Mapping[tuple[str, str], tuple[tuple[Place, Night], list[Outcome]]]:
    newest: dict[tuple[str, str], tuple[tuple[Place, Night], list[Outcome]]] = {}
    for place, night in nights:
        for task in night.tasks:
            of_table = newest.setdefault((night.conn_id, task.table), ((place, night), []))
            if of_table[0][0] == place:
                of_table[1].append(task)
    return newest


def _notes(entries: StoredEntries) -> tuple[tuple[Place, str], ...]:
    return tuple(dict.fromkeys(entries.notes))
