"""LakeJobOperator: one action on one table, by arguments that its spec's fields describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow_lake_provider.contracts.author_object import AuthorObject, is_open
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.operators.outcome import in_short, place_of, show_outcome
from airflow_lake_provider.operators.retry_delays import refusing_for_good
from airflow_lake_provider.operators.spark_application import SparkApplicationOperator
from airflow_lake_provider.operators.table_task import TableTask
from airflow_lake_provider.operators.worker_action import WorkerAction

if TYPE_CHECKING:
    from airflow.sdk import Context

SpecT = TypeVar("SpecT", bound=JobSpec)


class LakeJobOperator(SparkApplicationOperator, Generic[SpecT]):
    """Submit one action on one lake table and return its report.

    Subclasses say which action; its spec's fields say how their arguments are read and which of them are templated.

    :param table: ``namespace.table`` (templated).
    :param of_application: arguments of :class:`.SparkApplicationOperator`.
    :raises InvalidSpecError: an argument is malformed or contradicts another one.
    :raises InvalidConnectionError: a connection is missing, incomplete or contradictory.
    :raises MissingTableError: the table is not in the catalog and may not be created.
    :raises UnsupportedError: the table or the engine cannot do what was asked.
    :raises CommitConflictError: other writers won every attempt; nothing changed.
    :raises UnknownOutcomeError: a commit was sent and its answer was lost; the retry finds out.
    :raises CatalogUnavailableError: the catalog did not answer.
    :raises JobFailedError: the Spark job ended in a way that nothing above describes.
    """

    if TYPE_CHECKING:
        # Arguments are attributes, by the names of the spec's fields.
        def __getattr__(self, name: str) -> Any: ...

    template_fields: Sequence[str] = ("table", *SparkApplicationOperator.template_fields)
    action: ClassVar[type[WorkerAction[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "action" in cls.__dict__:
            cls.arguments = {argument.attribute: argument for argument in cls.action.spec_type.arguments()}
            shown = (name for name, argument in cls.arguments.items() if argument.is_shown and name != "table")
            cls.template_fields = (*LakeJobOperator.template_fields, *shown)

    def __init__(
        self,
        *,
        table: str,
        **of_application: Any,
    ) -> None:
        super().__init__(**of_application)
        self.table = table
        self._name_by_table()
        # As it was given: what is rendered no longer tells that another run may have another.
        self._written_place: dict[str, Any] = {"table": table}

    def keep(self, given: Mapping[str, Any]) -> None:
        """Keep the author's arguments, and refuse what cannot be right whatever its templates become.

        :param given: by name; those that are no arguments of the spec are left alone.
        :raises InvalidSpecError: naming the argument.
        """
        if "branch" in self.arguments:
            self._written_place["branch"] = given["branch"]
        with refusing_for_good():
            for name, argument in self.arguments.items():
                if name != "table":
                    value = given[argument.author_name]
                    setattr(self, name, value if argument.is_templated else argument.read(value))
            self.written()

    def written(self) -> SpecT:
        """Return the spec as the author wrote it, with what is open in it.

        :raises InvalidSpecError: what is known cannot be, or does not go together.
        """
        return self._spec_of({})

    def build_spec(self, context: Context) -> SpecT:
        """Translate the author's arguments, rendered, into the spec that is sent.

        :raises LakeProviderError: they cannot be, do not go together, or the catalog does not say what they lack.
        """
        task = self._task(context, None)
        if task.error is not None:
            raise task.error
        return task.known_spec  # type: ignore[return-value]  # of this operator

    @property
    def has_own_tables(self) -> bool:
        """Return whether another instance or run writes elsewhere: to another table, or to another branch."""
        if is_open(self._written_place):
            return True
        if self.mapped_task is None:
            return False
        names = {attribute: self.arguments[attribute].author_name for attribute in self._written_place}
        mapped = self.mapped_task.expand_input.value
        if isinstance(mapped, Mapping):
            return any(name in mapped for name in names.values())
        shared = self.mapped_task.partial_kwargs
        return any(shared.get(names[attribute]) != given for attribute, given in self._written_place.items())

    def place(self) -> str:
        """Return the table."""
        return str(self.table)

    def table_tasks(self, context: Context) -> list[TableTask]:
        """Return the one task."""
        return [self._task(context, self.allowed_tables)]

    def _task(self, context: Context, allowed_tables: Sequence[str] | None) -> TableTask:
        task = TableTask(action=self.action(self.tables), run=self.task_run(context), table=self.place())
        task.make_spec(lambda: self._rendered(context), allowed_tables)
        return task

    def result(self, tasks: list[TableTask], context: Context) -> dict[str, Any]:
        """Tell of the report and return it."""
        (task,) = tasks
        report = task.report
        if report is None:
            raise task.error or AssertionError("a task ends with a report or with an error")
        show_outcome(context, place_of(report.table, self.branch), in_short(report))
        self.tell(tasks, context)
        task.check_report()
        if task.error is not None:
            # The driver has ended well with its report, and the retry would read that again.
            self.leave_application(context)
            raise task.error
        plain: dict[str, Any] = to_plain(report)
        return plain

    def show_failure(self, error: LakeProviderError, context: Context) -> None:
        """Show why the task fails, and count it."""
        task = self._tasks[0] if self._tasks else None
        # A report has told of the conflicts.
        self.metrics(self.place(), self.branch).tell_failure(
            error, task.spec if task is not None and task.report is None else None
        )
        super().show_failure(error, context)

    def note_xcom(self, seen_oids: set[int]) -> None:
        """Note what a mapped task has from XCom; the name has a table in it that may be from there."""
        super().note_xcom(seen_oids)
        if self._is_named_here:
            seen_oids.add(id(self.name))

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        if parent is self:
            self._name_by_table()

    def _name_by_table(self) -> None:
        if self._is_named_here:
            self.name = f"{type(self).__name__} {self.table}"

    def _rendered(self, context: Context) -> SpecT:
        unseen = {
            argument.name: self.rendered_unseen(name, context)
            for name, argument in self.arguments.items()
            if argument.is_templated and not argument.is_shown
        }
        # What a template gave is read first: other arguments are compared with it.
        checked = {
            argument.name: value.checked()
            for name, argument in self.arguments.items()
            if isinstance(value := getattr(self, name), AuthorObject)
        }
        return self._spec_of({**checked, **unseen})

    def _spec_of(self, rendered: Mapping[str, Any]) -> SpecT:
        given = {argument.name: argument.given(getattr(self, name)) for name, argument in self.arguments.items()}
        spec: SpecT = self.action.spec_type(**{**given, **rendered})  # type: ignore[assignment]  # of this operator
        return spec
