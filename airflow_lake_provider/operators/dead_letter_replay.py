"""LakeDeadLetterReplayOperator: the repaired dead letters of a table, each applied once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.argument_validation import mapping
from airflow_lake_provider.contracts.author.dead_letter import LETTERS_TABLE, RepairedLetters
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.rendered_arguments import ids_in
from airflow_lake_provider.operators.retry_delays import refusing_for_good
from airflow_lake_provider.operators.table_task import TableTask

if TYPE_CHECKING:
    from airflow.sdk import Context

_OWN = ("action", "keys", "source", "table")


class LakeDeadLetterReplayOperator(LakeApplicationOperator):
    """Apply the dead letters of a table that somebody has repaired, each once, and return a list of one report.

    It is an append, or with ``keys`` an upsert, of the source ``RepairedLetters``. The table keeps which letters were
    applied under the name of the table of letters: another task, or DAG, applies none of them again.

    :param target: ``namespace.table`` whose letters are applied (templated).
    :param letters: lake table of the dead letters, of the same catalog (templated).
    :param source_name: under which the table keeps which letters were applied. Where a task of an append or an upsert
        has applied some before, that is ``<dag id>.<task id>`` of it; by default the table of letters.
    :param keys: columns by which the letters are upserted; left out, they are appended (templated).
    :param load: other arguments of :class:`.LakeUpsertOperator` or :class:`.LakeAppendOperator`, such as
        ``schema_contract`` (templated, where the operator's argument is).
    :param of_application: arguments of :class:`.SparkApplicationOperator`.
    :raises BadInputError: a repaired record still does not fit; none was applied.
    """

    _name_of_task = "the replay"

    def __init__(
        self,
        *,
        target: str,
        letters: str = LETTERS_TABLE,
        source_name: str | None = None,
        keys: Sequence[str] = (),
        load: Mapping[str, Any] | None = None,
        **of_application: Any,
    ) -> None:
        with refusing_for_good():
            given = mapping({} if load is None else load, "load", "the name of an argument to its value")
            if own := sorted(given.keys() & set(_OWN)):
                raise InvalidSpecError(
                    f"load has {own}; give target, letters and keys, and the operator makes these of them"
                )
        given |= {"keys": keys} if keys else {}
        action = "upsert" if keys else "append"
        source = RepairedLetters(letters, name=source_name or letters)
        self._load = load
        super().__init__(tasks=[{"action": action, "table": target, "source": source, **given}], **of_application)

    def note_xcom(self, seen_oids: set[int]) -> None:
        """Note what a mapped task has from XCom; of ``load`` the spec has other objects."""
        super().note_xcom(seen_oids)
        if self._load is None or id(self._load) not in seen_oids:
            return
        for spec in (task for task in self.tasks if isinstance(task, JobSpec)):
            of_load = (argument.name for argument in spec.arguments() if argument.author_name in self._load)
            seen_oids.update(oid for name in of_load for oid in ids_in(getattr(spec, name)))

    def result(self, tasks: list[TableTask], context: Context) -> list[dict[str, Any]]:
        """Tell of the one report and return it.

        :raises LakeProviderError: the letters were not applied.
        """
        reports = super().result(tasks, context)
        for task in tasks:
            if task.error is not None:
                raise task.error
        return reports
