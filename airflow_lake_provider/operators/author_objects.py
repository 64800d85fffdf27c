"""Author objects in an operator's arguments: rendered into copies, their XCom references found.

Airflow renders a nested object by assigning to it. Ours are frozen, and mapped tasks share those of ``partial()``, so
each task renders into a copy of its own. Airflow looks for XCom references in lists and mappings only; the methods here
look inside our objects too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from airflow.sdk import XComArg
from airflow.sdk.definitions.mappedoperator import OperatorPartial

from airflow_lake_provider.contracts.author_object import AuthorObject

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    Base = BaseOperator
else:
    Base = object


class AuthorObjects(Base):
    """Part of an operator that takes author objects."""

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: Any = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render an author object into a copy, anything else as Airflow does."""
        if isinstance(content, AuthorObject):
            return content.rendered(lambda value: self.render_template(value, context, jinja_env, seen_oids))
        return super().render_template(content, context, jinja_env, seen_oids)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """Begin a mapped task, whose objects may refer to XCom."""
        found = super().partial(**kwargs)
        # Airflow warns of one that was never expanded.
        found._expand_called = True
        return _Partial(operator_class=found.operator_class, kwargs=found.kwargs, params=found.params)

    def _set_xcomargs_dependencies(self) -> None:
        super()._set_xcomargs_dependencies()
        _follow(self, [getattr(self, name, None) for name in self.template_fields])

    def _set_xcomargs_dependency(self, field: str, newvalue: Any) -> None:
        super()._set_xcomargs_dependency(field, newvalue)
        if field in self.template_fields:
            _follow(self, newvalue)


class _Partial(OperatorPartial):
    """A mapped task before its expansion."""

    def _expand(self, expand_input: Any, *, strict: bool) -> MappedOperator:
        mapped = OperatorPartial._expand(self, expand_input, strict=strict)
        fixed = [value for name, value in self.kwargs.items() if name in mapped.template_fields]
        _follow(mapped, [fixed, expand_input.value])
        return mapped


def _follow(task: BaseOperator | MappedOperator, value: Any) -> None:
    """Put a task behind those whose XCom the objects in a value refer to."""
    for found in _objects_in(value):
        values = [getattr(found, field.name) for field in fields(found)]
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
