"""Refuse arguments while a DAG is parsed: what templates hide until they are rendered, something stands in for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import Reader, text
from airflow_lake_provider.contracts.author_object import AuthorObject, is_open, is_sql_file, known
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.operators.failures import as_task_failure

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    Base = BaseOperator
else:
    Base = object


class ParseTimeValidation(Base):
    """Part of an operator that makes a spec on trial."""

    table: str
    # What an author calls the table that is written.
    table_argument: ClassVar[str] = "table"
    # By argument that may be open when a DAG is parsed: what stands for it in the check of the others.
    stand_ins: ClassVar[Mapping[str, Any]] = {"table": "namespace.table"}
    sql_arguments: ClassVar[tuple[str, ...]]
    object_readers: ClassVar[Mapping[str, Reader]]

    def make_spec(self, frame: SpecFrame, context: Context | None) -> Any:
        """Translate the author's arguments into a spec."""
        raise NotImplementedError

    def refuse_wrong_arguments(self) -> None:
        """Refuse, while the DAG is parsed, what cannot be right whatever its templates become.

        :raises InvalidSpecError: naming the argument.
        """
        trial = copy.copy(self)
        for name, stand_in in self.stand_ins.items():
            # Airflow's own assignment would change the arguments that the copy shares.
            object.__setattr__(trial, name, self._known(name, stand_in))
        table = text(trial.table, self.table_argument)
        frame = SpecFrame(catalog="lake", table_format="iceberg", table=table, run=RunIdentity.of("parsed"))
        try:
            trial.make_spec(frame, None)
        except InvalidSpecError as error:
            # A mapped task is made when it runs; there a retry would hear the same.
            raise as_task_failure(error) from None

    def _known(self, name: str, stand_in: Any) -> Any:
        value = getattr(self, name)
        if name in self.sql_arguments and is_sql_file(value):
            return stand_in
        if isinstance(value, Mapping) and name in self.object_readers and not is_open(value.get("type")):
            value = self.object_readers[name](value, name)
        return known(value, stand_in) if isinstance(value, AuthorObject) or is_open(value) else value
