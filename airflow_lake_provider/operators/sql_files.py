"""Arguments that are SQL may name a file: ``query="sql/revenue.sql"`` is read from the DAG's template search path.

Airflow's own ``template_ext`` would take every templated text that ends so for a file, also paths of Spark's files and
what a template made. Here only the arguments that are SQL are read, and only as the author wrote them: what comes from
XCom, a form or a template names no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import Reader
from airflow_lake_provider.contracts.author_object import AuthorObject, has_sql_file, is_open, is_sql_file
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.failures import as_task_failure

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    Base = BaseOperator
else:
    Base = object


class SqlFiles(Base):
    """Part of an operator whose arguments may name files of SQL."""

    template_ext: ClassVar[tuple[str, ...]] = (".sql",)  # type: ignore[misc]  # of the class in Airflow, too
    # Names of templated arguments that are SQL.
    sql_arguments: ClassVar[tuple[str, ...]] = ()
    # By argument that takes an author object: its reader.
    object_readers: ClassVar[Mapping[str, Reader]] = {}

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
        """Render a text as a text, whatever it ends with; anything else as Airflow does."""
        if isinstance(content, str) and content.endswith(self.template_ext):
            if seen_oids is not None and id(content) in seen_oids:
                return content
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
            found = environment.loader.get_source(environment, value)[0] if environment.loader else None
        # Jinja's TemplateNotFound is an OSError.
        except (OSError, UnicodeError) as error:
            where = f"It is looked for in {', '.join(map(repr, environment.loader.searchpath))}"
            raise InvalidSpecError(f"{name}: the file {value!r} cannot be read: {error}. {where}") from error
        if found is None:
            raise InvalidSpecError(f"{name}: the file {value!r} needs a DAG, in whose folder it is looked for")
        return str(found).strip()

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        for name in template_fields:
            value = getattr(parent, name, None)
            # Values from XCom are no templates, and Airflow lists them here.
            if id(value) not in seen_oids:
                self._read_files(parent, name, value, jinja_env)
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)

    def _read_files(self, parent: Any, name: str, value: Any, jinja_env: Any) -> None:
        try:
            found = self._with_sql_files(value, name, lambda file: self.sql_text(file, name, jinja_env))
        except InvalidSpecError as error:
            raise as_task_failure(error) from None
        if found is not value:
            setattr(parent, name, found)

    def _with_sql_files(self, value: Any, name: str, read: Callable[[str], str]) -> Any:
        if name in self.sql_arguments and isinstance(value, str):
            return read(value)
        if isinstance(value, Mapping) and name in self.object_readers and not is_open(value.get("type")):
            given = self.object_readers[name](value, name)
            value = given if isinstance(given, AuthorObject) and has_sql_file(given) else value
        return value.with_sql_files(read) if isinstance(value, AuthorObject) and has_sql_file(value) else value
