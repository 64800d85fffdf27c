"""Arguments of an operator, rendered as its spec says, objects and files of SQL too; and ``conf`` without a param.

Airflow renders a nested object by assigning to it. Ours are frozen, and mapped tasks share those of ``partial()``, so
each task renders into a copy of its own. Airflow looks for XCom references in lists and mappings only; the methods here
look inside our objects too.

Arguments that are SQL may name a file: ``query="sql/revenue.sql"`` is read from the DAG's template search path.
Airflow's own ``template_ext`` would take every templated text that ends so for a file, also paths of Spark's files and
what a template made. Here only the arguments that are SQL are read, and only as the author wrote them. What comes from
XCom, a form or a template names no file.

What comes from XCom is no template either. An XCom reference is resolved and left as it is. A mapped task is made of
XCom, and Airflow lists the ids of what came from there. An operator that makes other objects of it adds theirs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from airflow.sdk import XComArg
from airflow.sdk.definitions._internal.expandinput import ListOfDictsExpandInput
from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from airflow_lake_provider.contracts.argument_validation import NO_VALUE, is_path
from airflow_lake_provider.contracts.author_object import AuthorObject, has_sql_file, is_open, is_sql_file
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.specs.job import Argument
from airflow_lake_provider.operators.retry_delays import refusing_for_good

if TYPE_CHECKING:
    from airflow.sdk import Context


if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    Base = BaseOperator
else:
    Base = object


class NumbersOfDigits(Base):
    """Part of an operator, or a sensor, that renders templates alone, and makes a number of digits and nothing else."""

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """Begin a mapped task, whose objects may refer to XCom."""
        mapped = super().partial(**kwargs)
        # Airflow warns of one that was never expanded.
        mapped._expand_called = True
        return _Partial(operator_class=mapped.operator_class, kwargs=mapped.kwargs, params=mapped.params)

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: Any = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render as Airflow does, but for texts without a template and those that only Python reads as a number."""
        if seen_oids is not None and id(content) in seen_oids:
            return content
        jinja_env = jinja_env or self.get_template_env()
        if is_path(content):
            content = str(content)
        if isinstance(content, str) and not _has_template(content, jinja_env):
            # Jinja cuts a line break at the end, and writes a member of an enumeration by its Python name. A native
            # environment makes None of an empty text.
            return content.value if isinstance(content, Enum) else content
        rendered = super().render_template(content, context, jinja_env, seen_oids)
        if isinstance(content, str) and isinstance(rendered, int) and not isinstance(rendered, bool):
            # Python reads 2026_1_12 and 2026_11_2 as one number, so that two batches would have one name.
            text = self.dag.get_template_env(force_sandboxed=True).from_string(content).render(context)
            return rendered if text.strip() == str(rendered) else text
        return rendered


def _has_template(text: str, environment: Any) -> bool:
    marks = (
        *(environment.variable_start_string, environment.block_start_string, environment.comment_start_string),
        *(environment.line_statement_prefix, environment.line_comment_prefix),
    )
    return any(mark in text for mark in marks if mark)


class RenderedArguments(NumbersOfDigits):
    """Part of an operator that takes author objects and files of SQL."""

    template_ext: ClassVar[tuple[str, ...]] = (".sql",)  # type: ignore[misc]  # of the class in Airflow, too
    # What an author gives, by the operator's attribute that keeps it.
    arguments: ClassVar[Mapping[str, Argument]] = {}
    # Attributes that have their value from XCom, of those that Airflow does not render.
    _unseen_of_xcom: frozenset[str] = frozenset()

    @property
    def mapped_task(self) -> MappedOperator | None:
        """The mapped task that this is an instance of."""
        task = self.dag.task_dict.get(self.task_id) if self.has_dag() else None  # type: ignore[no-untyped-call]  # Airflow's
        return task if isinstance(task, MappedOperator) else None

    def resolve_template_files(self) -> None:
        """Read nothing when a DAG is parsed: files are read when the task runs."""
        self.prepare_template()

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: Any = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render an author object into a copy, and a text as a text whatever it ends with."""
        if seen_oids is not None and id(content) in seen_oids:
            return content
        if isinstance(content, AuthorObject):
            return content.rendered(lambda value: self.render_template(value, context, jinja_env, seen_oids))
        if isinstance(content, str) and content.endswith(self.template_ext):
            return self._render((jinja_env or self.get_template_env()).from_string(content), context)
        return super().render_template(content, context, jinja_env, seen_oids)

    def sql_text(self, value: str, name: str, jinja_env: Any = None) -> str:
        """Return the text of a file of SQL where a value names one, not rendered yet; else the value.

        :param name: of the argument, for messages.
        :raises InvalidSpecError: no such file is in the DAG's folder or its ``template_searchpath``.
        """
        if not is_sql_file(value):
            return value
        environment: Any = jinja_env or self.get_template_env()
        try:
            text = environment.loader.get_source(environment, value)[0] if environment.loader else None
        # Jinja's TemplateNotFound is an OSError.
        except (OSError, UnicodeError) as error:
            where = f"It is looked for in {', '.join(map(repr, environment.loader.searchpath))}"
            raise InvalidSpecError(f"{name}: the file {value!r} cannot be read: {error}. {where}") from error
        if text is None:
            raise InvalidSpecError(f"{name}: the file {value!r} needs a DAG, in whose folder it is looked for")
        return str(text).strip()

    def rendered_unseen(self, attribute: str, context: Context) -> Any:
        """Return the value of an attribute as it renders, of one that Airflow does not keep among the rendered fields.

        :raises InvalidSpecError: it names a file of SQL that cannot be read.
        """
        value = getattr(self, attribute)
        if value is None or attribute in self._unseen_of_xcom:
            return value
        text = self.sql_text(value, self.arguments[attribute].author_name) if isinstance(value, str) else value
        return self.render_template(text, context)

    def note_xcom(self, seen_oids: set[int]) -> None:
        """Note what a mapped task has from XCom, and add the ids of what the operator has made of it.

        :param seen_oids: ids of what is not rendered.
        """
        self._unseen_of_xcom = frozenset(name for name in _unseen(type(self)) if id(getattr(self, name)) in seen_oids)

    def _set_xcomargs_dependencies(self) -> None:
        super()._set_xcomargs_dependencies()
        _follow(self, [getattr(self, name, None) for name in (*self.template_fields, *_unseen(type(self)))])

    def _set_xcomargs_dependency(self, field: str, newvalue: Any) -> None:
        super()._set_xcomargs_dependency(field, newvalue)
        if field in self.template_fields:
            _follow(self, newvalue)

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        # Of an object in a field of the operator, Airflow renders the fields by this method as well.
        if parent is self:
            self.note_xcom(seen_oids)
        for name in template_fields:
            value = getattr(parent, name, None)
            if id(value) not in seen_oids:
                self._read_files(parent, name, value, jinja_env, seen_oids)
        limits = [name for name, each in self.arguments.items() if each.is_limit and is_open(getattr(self, name))]
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        for name in limits if parent is self else ():
            if getattr(self, name) is None:
                # Its reader refuses the text: nobody who gives a limit means none.
                setattr(self, name, NO_VALUE)

    def _read_files(self, parent: Any, name: str, value: Any, jinja_env: Any, seen_oids: set[int]) -> None:
        def read(file: str) -> str:
            return file if id(file) in seen_oids else self.sql_text(file, name, jinja_env)

        with refusing_for_good():
            replaced = self._with_sql_files(value, name, read)
        if replaced is not value:
            setattr(parent, name, replaced)

    def _with_sql_files(self, value: Any, name: str, read: Callable[[str], str]) -> Any:
        if isinstance(value, list):
            items = [self._with_sql_files(item, name, read) for item in value]
            return value if all(one is other for one, other in zip(items, value, strict=True)) else items
        argument = self.arguments.get(name)
        if argument is not None and argument.is_sql and isinstance(value, str):
            return read(value)
        if argument is not None and isinstance(value, Mapping):
            given = argument.as_object(value)
            value = given if isinstance(given, AuthorObject) and has_sql_file(given) else value
        return value.with_sql_files(read) if isinstance(value, AuthorObject) and has_sql_file(value) else value


class _Partial(OperatorPartial):
    """A mapped task before its expansion."""

    def _expand(self, expand_input: Any, *, strict: bool) -> MappedOperator:
        by_mappings = isinstance(expand_input, ListOfDictsExpandInput)
        own = _Mappings(expand_input.value) if by_mappings else expand_input
        mapped = OperatorPartial._expand(self, own, strict=strict)
        # Airflow makes one of its own class.
        mapped.__class__ = _MappedTask
        # All of them: an operator may keep one under another name than its author gives, or make others of it.
        _follow(mapped, [list(self.kwargs.values()), expand_input.value])
        return mapped


class _MappedTask(MappedOperator):
    """A mapped task whose instance fails for good where its arguments make no operator."""

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Make the operator of an instance, and render it."""
        with refusing_for_good():
            super().render_template_fields(context, jinja_env)

    def unmap(self, resolve: Mapping[str, Any]) -> BaseOperator:
        """Make the operator of an instance.

        :raises InvalidSpecError: an argument is missing, unknown, in ``partial()`` as well, or none that Airflow takes.
        """
        try:
            return super().unmap(self._with_limits(resolve))
        except LakeProviderError:
            raise
        except (TypeError, ValueError) as error:
            raise _no_operator(self.task_id, error) from error

    def _with_limits(self, resolved: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of an instance; where XCom has no value for a limit, a text that is refused."""
        mapped_over: Any = self.expand_input.value
        arguments: Mapping[str, Argument] = getattr(self.operator_class, "arguments", {})
        without = [name for name, value in resolved.items() if value is None and name in arguments]
        # In a list that the author wrote, None is meant.
        if not isinstance(mapped_over, Mapping):
            mapped_over = dict.fromkeys(without, mapped_over)
        limits = (name for name in without if arguments[name].is_limit and not isinstance(mapped_over.get(name), Sized))
        return {**resolved, **dict.fromkeys(limits, NO_VALUE)}


def _no_operator(task_id: str, error: Exception) -> InvalidSpecError:
    return InvalidSpecError(
        f"{task_id}: what the task is mapped over makes no operator: {error}. Map it over what partial() lacks "
        "of the operator's arguments, and over no others"
    )


class _Mappings(ListOfDictsExpandInput):
    """The mappings that ``expand_kwargs()`` takes.

    Airflow lists none of the values of a mapping from XCom, so it renders them. It lists the XCom references in one
    that an author writes, so it does not resolve them.
    """

    def resolve(self, context: Mapping[str, Any]) -> tuple[Mapping[str, Any], set[int]]:
        """Return the mapping of an instance, and the ids of its values that are not rendered."""
        try:
            given, _ = super().resolve(context)
        except ValueError as error:
            raise _no_operator(context["ti"].task_id, error) from error
        is_written = isinstance(self.value, Sized) and isinstance(self.value[context["ti"].map_index], Mapping)
        return given, set() if is_written else {id(value) for value in given.values()}


def ids_in(value: Any) -> Iterator[int]:
    """Yield the ids of a value and of all that is in it, such as an object that was made of XCom."""
    yield id(value)
    inner = [getattr(value, field.name) for field in fields(value)] if isinstance(value, AuthorObject) else value
    items = inner.values() if isinstance(inner, Mapping) else inner if isinstance(inner, (list, tuple, set)) else ()
    for item in items:
        yield from ids_in(item)


def _unseen(operator: type) -> list[str]:
    """Return the attributes that are rendered and not shown, in which Airflow looks for no reference."""
    arguments: Mapping[str, Argument] = getattr(operator, "arguments", {})
    return [name for name, argument in arguments.items() if argument.is_templated and not argument.is_shown]


def _follow(task: BaseOperator | MappedOperator, value: Any) -> None:
    """Put a task behind those whose XCom a value, and the objects in it, refer to."""
    in_objects = ([getattr(item, field.name) for field in fields(item)] for item in _objects_in(value))
    for values in (value, *in_objects):
        for upstream, _ in XComArg.iter_xcom_references(values):
            if upstream.task_id not in task.upstream_task_ids:
                task.set_upstream(upstream)


def _objects_in(value: Any) -> Iterator[AuthorObject]:
    if isinstance(value, AuthorObject):
        yield value
        value = [getattr(value, field.name) for field in fields(value)]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple, set)) else ()
    for item in items:
        yield from _objects_in(item)


# Whoever triggers a run chooses the keys and how many.
_MOST_NAMED = 10


class TaskWithParams(Protocol):
    """Parts of an operator that say what ``conf`` may have."""

    params: Any

    @property
    def dag_id(self) -> str:
        """Id of that DAG."""

    @property
    def dag(self) -> Any:
        """The DAG that it is defined in."""

    def has_dag(self) -> bool:
        """Tell whether it is defined in a DAG."""


def unknown_conf(operator: TaskWithParams, context: Context) -> str | None:
    """Return a sentence that names them, with the params that they may be meant for.

    :return: None without any, and for a DAG without params, whose templates read ``dag_run.conf`` as they like.
    """
    conf = getattr(context.get("dag_run"), "conf", None)
    params = [*operator.dag.params, *operator.params] if operator.has_dag() else []
    if not isinstance(conf, Mapping) or not params:
        return None
    unknown = sorted(str(key) for key in conf if key not in params)
    if not unknown:
        return None
    meant = {key: difflib.get_close_matches(key, params, n=1) for key in unknown[:_MOST_NAMED]}
    named = [f"{shown(key)}{f' (did you mean {alike[0]!r}?)' if alike else ''}" for key, alike in meant.items()]
    more = f" and {len(unknown) - len(named):,} more" if len(unknown) > len(named) else ""
    return (
        f"the run's conf has keys that no param of DAG {operator.dag_id} has: {', '.join(named)}{more}. They change "
        f"nothing unless a template reads them. Params are {', '.join(sorted(set(params)))}"
    )
