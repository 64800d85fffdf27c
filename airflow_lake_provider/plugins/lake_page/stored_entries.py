"""Entries of plans and verdicts in Airflow's database: the newest looks, their rows, and what verdicts have left.

Nothing else is read, so no request opens a catalog. What cannot be read is left out with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.state import TaskInstanceState
from sqlalchemy import Text, cast, func, or_, select
from sqlalchemy.orm import Session

from airflow_lake_provider.maintenance.fleet_entries import CHANGED, DETAILS, FLEET, ROWS, VERSION
from airflow_lake_provider.maintenance.outcome_entry import NO_OUTCOMES, OUTCOMES
from airflow_lake_provider.maintenance.trend import TRENDS, name_in_entry
from airflow_lake_provider.plugins.lake_page.entries import (
    Fields,
    Header,
    Night,
    Row,
    Trend,
    UnreadableEntryError,
    entry_of,
)

T = TypeVar("T")
P = ParamSpec("P")
# Older entries are not looked for.
REMEMBERED = timedelta(days=60)
_MOST_HEADERS, _MOST_CHANGED, _MOST_NIGHTS, _MOST_TRENDS = 300, 60, 60, 20
# Characters of nights: some thousand tasks, which are read in 10 ms.
_LITTLE = 500_000
_FAILED = (TaskInstanceState.FAILED, TaskInstanceState.UPSTREAM_FAILED)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Task instance that has left an entry."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


@dataclass(frozen=True, kw_only=True)
class Look:
    """A plan's look.

    :param place: that has left it.
    :param of_changed: whether it was at changed tables alone.
    """

    place: Place
    header: Header
    of_changed: bool = False

    @property
    def scope(self) -> tuple[Any, ...]:
        """Equal for looks of which a later one stands for an earlier one."""
        return self.place.dag_id, self.place.task_id, *self.asked

    @property
    def asked(self) -> tuple[Any, ...]:
        """Catalog and patterns of what was looked at."""
        return self.header.conn_id, self.header.tables


@dataclass
class StoredEntries:
    """Reads what the entries of plans and verdicts say of tables that a user may see.

    :param session: of Airflow's database.
    :param dag_ids: whose entries the user may read.
    :param now: against which ages count.
    :param assets: authority and table of each asset that the user may read; of these the entries of all DAGs are.
    :param notes: of what could not be read, filled while reading.
    :param incomplete: whose rows could not all be read, likewise.
    """

    session: Session
    dag_ids: Collection[str]
    now: datetime
    assets: Collection[tuple[str, str]] = ()
    notes: list[tuple[Place, str]] = field(default_factory=list)
    incomplete: set[Place] = field(default_factory=set)

    def may_read(self, place: Place) -> bool:
        """Tell whether the user may read all that a task has left, and not only what it says of some tables."""
        return place.dag_id in self.dag_ids

    def looks(self) -> tuple[list[Look], list[Look]]:
        """Return the looks that hold, oldest first, and those that a newer one of their scope has replaced."""
        headers = self._headers(FLEET, _MOST_HEADERS)
        removed = self.removed({look.place.dag_id for look in headers})
        holding: list[Look] = []
        scopes: set[tuple[Any, ...]] = set()
        replaced: dict[tuple[Any, ...], Look] = {}
        for look in headers:
            is_removed = look.place.dag_id in removed
            # A DAG that was renamed goes on under its new name.
            if look.scope in scopes or (is_removed and look.asked in scopes):
                replaced.setdefault(look.scope, look)
            else:
                holding.append(look)
            scopes |= {look.scope} if is_removed else {look.scope, look.asked}
        holding += self._headers(CHANGED, _MOST_CHANGED)
        return sorted(holding, key=lambda look: look.header.at), list(replaced.values())

    def removed(self, dag_ids: Collection[str]) -> set[str]:
        """Return those of some DAGs that no DAG file has any more, as after another name."""
        asked = select(DagModel.dag_id).where(DagModel.dag_id.in_(dag_ids), DagModel.is_stale)
        return set(self.session.scalars(asked))

    def rows(self, looks: Sequence[Look]) -> Iterator[tuple[Look, Row]]:
        """Yield the rows of looks that the user may see, in their order."""
        wanted = {look.place: [f"{ROWS}_{number}" for number in range(look.header.parts)] for look in looks}
        texts: dict[Place, dict[str, str]] = {}
        for place, key, text, _ in self._values(wanted):
            texts.setdefault(place, {})[key] = text
        for look in looks:
            parts = [texts.get(look.place, {}).get(key) for key in wanted[look.place]]
            for part in parts:
                read = self._read(look.place, entry_of, part, VERSION)
                rows = list(map(Row.of, read.each("rows"))) if read is not None else [None]
                if None in rows:
                    self.incomplete.add(look.place)
                mine = (row for row in rows if row is not None and self._sees(look.place, look.header, row.table))
                yield from ((look, row) for row in mine)

    def would_show(self, look: Look, table: str) -> bool:
        """Tell whether a look of which all rows were read would show a table to the user, were it there."""
        is_whole = not look.of_changed and look.place not in self.incomplete
        return is_whole and look.header.covers(table) and self._sees(look.place, look.header, table)

    def details(self, look: Look, row: Row) -> Fields:
        """Return the details of a table; empty where the look has left none."""
        if row.details is None:
            return Fields(None)
        for place, _, text, _ in self._values({look.place: [f"{DETAILS}_{row.details}"]}):
            if (read := self._read(place, entry_of, text, VERSION)) is not None:
                return read.within("tables").within(row.table)
        return Fields(None)

    def nights(self, most: int) -> list[tuple[Place, Night]]:
        """Return what verdicts have left, newest first; of closed DAGs, the tasks of some tables.

        :param most: runs that had tasks; the newest of each verdict is among them in any case, with tasks or without.
            Where these say little, older ones are read, too: runs by commits come often, each of a few tables.
        """
        newest, idle = self._newest(OUTCOMES, _MOST_NIGHTS), self._newest(NO_OUTCOMES, _MOST_NIGHTS)
        first = max(most, sum(rank == 1 for _, rank in newest))
        keys = {place: [NO_OUTCOMES] for place, rank in idle if rank == 1}
        texts = [*self._values(keys | {place: [OUTCOMES] for place, _ in newest[:first]})]
        for start in range(first, len(newest), most):
            if sum(len(text) for _, _, text, _ in texts) > _LITTLE:
                break
            texts += self._values({place: [OUTCOMES] for place, _ in newest[start : start + most]})
        read = ((place, self._read(place, Night.of, text), stored) for place, _, text, stored in texts)
        nights = [
            (place, replace(self._seen(place, night), at=min(night.at, stored)))
            for place, night, stored in read
            if night is not None
        ]
        return sorted(nights, key=lambda each: each[1].at, reverse=True)

    def trends(self, nights: Sequence[tuple[Place, Night]]) -> dict[tuple[str, str], Trend]:
        """Return the newest trend of each table, by its connection and its name as trends have it.

        :param nights: whose verdicts may have left some.
        """
        of_places = dict([each for each in nights if each[1].counts][:_MOST_TRENDS])
        trends: dict[tuple[str, str], Trend] = {}
        values = sorted(self._values({place: [TRENDS] for place in of_places}), key=lambda each: each[3], reverse=True)
        for place, _, text, _ in values:
            # It has no version of its own: each of its elements has.
            listed = self._read(place, entry_of, f'{{"version": 0, "trends": {text}}}', 0)
            for each in map(Trend.of, listed.each("trends") if listed is not None else ()):
                if each is not None and self._sees(place, of_places[place], each.table, self._assets_in_trends):
                    trends.setdefault((of_places[place].conn_id, each.table), each)
        return trends

    def failed_tasks(self, tasks: Collection[tuple[str, str]]) -> list[Place]:
        """Return the newest instances of some tasks where these have failed.

        :param tasks: DAGs and tasks.
        """
        if not tasks:
            return []
        of_tasks = or_(*((TaskInstance.dag_id == dag) & (TaskInstance.task_id == task) for dag, task in tasks))
        task, ended = (TaskInstance.dag_id, TaskInstance.task_id), TaskInstance.end_date
        # A bound of all together would leave out those that run least.
        rank = func.row_number().over(partition_by=task, order_by=ended.desc()).label("newer")
        ranked = (
            select(*task, TaskInstance.run_id, TaskInstance.state, ended, rank)
            .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
            .where(of_tasks, DagRun.run_after >= self.now - REMEMBERED, ended.is_not(None))
            .subquery()
        )
        columns = (ranked.c.dag_id, ranked.c.run_id, ranked.c.task_id)
        asked = select(*columns).where(ranked.c.newer == 1, ranked.c.state.in_(_FAILED))
        return [
            Place(dag_id=dag_id, run_id=run_id, task_id=task_id)
            for dag_id, run_id, task_id in self.session.execute(asked.order_by(ranked.c.end_date.desc()))
        ]

    def _headers(self, key: str, most: int) -> list[Look]:
        values = self._values({place: [key] for place, _ in self._newest(key, most)})
        read = ((place, self._read(place, Header.of, text), stored) for place, _, text, stored in values)
        looks = [
            # A worker's clock may be ahead; what it dated in the future would be the newest for long.
            Look(place=place, header=replace(each, at=min(each.at, stored)), of_changed=key == CHANGED)
            for place, each, stored in read
            if each is not None
        ]
        return sorted(looks, key=lambda look: look.header.at, reverse=True)

    def _newest(self, key: str, most: int) -> list[tuple[Place, int]]:
        """Return who has left a key, and how many runs of the same task are as new: a busy task hides no other."""
        columns = (XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index)
        task = (XComModel.dag_id, XComModel.task_id, XComModel.map_index)
        rank = func.row_number().over(partition_by=task, order_by=XComModel.timestamp.desc()).label("newer")
        ranked = select(*columns, XComModel.timestamp, rank).where(*self._mine(XComModel.key == key)).subquery()
        asked = select(ranked).order_by(ranked.c.newer, ranked.c.timestamp.desc()).limit(most)
        return [
            (Place(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index), newer)
            for dag_id, run_id, task_id, index, _, newer in self.session.execute(asked)
        ]

    def _values(self, keys: dict[Place, list[str]]) -> Iterator[tuple[Place, str, str, datetime]]:
        asked = [
            (XComModel.dag_id == place.dag_id)
            & (XComModel.run_id == place.run_id)
            & (XComModel.task_id == place.task_id)
            & (XComModel.map_index == place.map_index)
            & XComModel.key.in_(names)
            for place, names in keys.items()
            if names
        ]
        return self._select(or_(*asked)) if asked else iter(())

    def _select(self, which: Any) -> Iterator[tuple[Place, str, str, datetime]]:
        # As text: one broken value would fail the others, too.
        value = cast(XComModel.value, Text)
        columns = (XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.key)
        asked = select(*columns, value, XComModel.timestamp).where(*self._mine(which))
        for dag_id, run_id, task_id, index, key, text, at in self.session.execute(
            asked.order_by(XComModel.timestamp.desc())
        ):
            yield Place(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index), key, text, at

    def _mine(self, which: Any) -> tuple[Any, ...]:
        whose = () if self.assets else (XComModel.dag_id.in_(self.dag_ids),)
        return which, *whose, XComModel.timestamp >= self.now - REMEMBERED

    @cached_property
    def _assets_in_trends(self) -> set[tuple[str, str]]:
        return {(authority, name_in_entry(table)) for authority, table in self.assets}

    def _sees(
        self, place: Place, entry: Header | Night, table: str, assets: Collection[tuple[str, str]] | None = None
    ) -> bool:
        own = self.assets if assets is None else assets
        return self.may_read(place) or any((authority, table) in own for authority in (entry.conn_id, entry.authority))

    def _seen(self, place: Place, night: Night) -> Night:
        return replace(night, tasks=tuple(task for task in night.tasks if self._sees(place, night, task.table)))

    def _read(self, place: Place, read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        try:
            return read(*given, **named)
        except UnreadableEntryError as error:
            if self.may_read(place):
                self.notes.append((place, str(error)))
            return None


def dags_with_entries(session: Session) -> set[str]:
    """Return the DAGs that have left an entry."""
    asked = select(XComModel.dag_id).where(XComModel.key.in_((FLEET, CHANGED, OUTCOMES, NO_OUTCOMES))).distinct()
    return set(session.scalars(asked))
