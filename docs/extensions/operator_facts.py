"""Add to a class of the reference what its code says: templated arguments, connections, the XCom of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.reports.job import JobReport, MetadataChangeReport
from airflow_lake_provider.contracts.reports.report_codec import REPORTS
from docs.extensions.public_names import constructor_arguments, is_ours

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def connections(cls: type) -> dict[str, str]:
    """Return the arguments that name a connection, with their defaults.

    :param cls: an operator, sensor, trigger or hook.
    """
    return {each.name: str(each.default) for each in constructor_arguments(cls) if each.name.endswith("_conn_id")}


def templated(cls: type) -> tuple[list[str], list[str]]:
    """Return the templated fields of a class: those of this package, and those that it has from Airflow.

    :param cls: an operator or a sensor; other classes have none.
    """
    fields = [field for field in getattr(cls, "template_fields", ()) if isinstance(field, str)]
    foreign = (base for base in cls.__mro__ if not is_ours(base))
    inherited = {field for base in foreign for field in vars(base).get("template_fields", ())}
    return [field for field in fields if field not in inherited], [field for field in fields if field in inherited]


def report_of(cls: type) -> type[JobReport] | None:
    """Return the report that an operator returns, by the spec that it builds; None for what builds none.

    :param cls: any class.
    """
    action = vars(cls).get("action")
    if action is None or isinstance(action, str):
        return None
    return REPORTS.get(action.spec_type.action, MetadataChangeReport)


def facts(cls: type) -> list[str]:
    """Return paragraphs of reStructuredText for a class; none for one that Airflow does not run.

    :param cls: a public class.
    """
    said = []
    named = connections(cls)
    if named:
        each = (f"``{name}`` (default ``{default}``)" for name, default in named.items())
        said.append(f"**Connections:** {', '.join(each)}.")
    own, inherited = templated(cls)
    if own:
        said.append(f"**Templated:** {_literals(own)}{f'; of Airflow: {_literals(inherited)}' if inherited else ''}.")
    report = report_of(cls)
    if report is not None:
        said.append(f"**XCom:** :class:`~{report.__module__}.{report.__qualname__}` as plain JSON data.")
    return said


def _literals(names: list[str]) -> str:
    return ", ".join(f"``{name}``" for name in names)


def _on_docstring(_app: Sphinx, what: str, _name: str, value: Any, _options: Any, lines: list[str]) -> None:
    if what != "class":
        return
    # Before the list of parameters, which begins with the first field.
    field = next((number for number, line in enumerate(lines) if line.startswith(":")), len(lines))
    lines[field:field] = [line for paragraph in facts(value) for line in (paragraph, "")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _on_docstring)
    return {"parallel_read_safe": True}
