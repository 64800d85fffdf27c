"""The reference holds every public class and function, and a docstring describes each of their parameters."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass

import pytest

from docs.extensions import public_names
from docs.extensions.linked_pages import with_downloads, with_tree
from docs.extensions.operator_facts import facts
from docs.extensions.public_names import listed_names, named, own_parameters, undocumented, unknown

NAMES = public_names.public_names()


def test_the_reference_names_each_public_class_and_function_once() -> None:
    assert Counter(listed_names()) == Counter(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_describes_every_parameter_and_no_other(name: str) -> None:
    assert (undocumented(named(name)), unknown(named(name))) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_begins_with_a_sentence(name: str) -> None:
    first = (inspect.getdoc(named(name)) or "").split("\n\n")[0]
    assert first.endswith("."), first


def test_no_operator_takes_more_than_17_parameters_of_its_own() -> None:
    # Without the keywords that go to the base.
    own = {name: len(own_parameters(named(name))) - 1 for name in NAMES if name.endswith("Operator")}
    assert max(own.values()) <= 17, own


def test_operators_name_the_errors_that_they_raise() -> None:
    operators = [name for name in NAMES if name.endswith(("Operator", "Sensor"))]
    assert len(operators) > 5
    assert [name for name in operators if ":raises " not in (named(name).__doc__ or "")] == []


class Base:
    """A base.

    :param table: of the base.
    """

    def __init__(self, table: str) -> None:
        self.table = table


class Derived(Base):
    """A class.

    :param known: one of its own.
    :param gone: one that was removed.
    """

    def __init__(self, known: str, forgotten: str, **more: str) -> None:
        super().__init__(**more)
        self.said = known, forgotten


@dataclass(frozen=True)
class Options:
    """A record.

    :param first: one of two fields.
    """

    first: int = 0
    second: int = 0


def test_a_parameter_without_a_description_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_names, "PACKAGE", __name__.split(".")[0])
    assert (undocumented(Derived), unknown(Derived)) == (["forgotten", "more"], ["gone"])
    assert undocumented(Options) == ["second"]


def test_a_class_of_the_reference_says_what_is_templated_and_what_xcom_gets() -> None:
    connections, templated, xcom = facts(named("airflow_lake_provider.operators.compaction.LakeCompactionOperator"))
    assert connections == (
        "**Connections:** ``lake_conn_id`` (default ``lake_default``), ``spark_conn_id`` (default ``spark_default``)."
    )
    own, of_airflow = templated.split("; of Airflow: ")
    assert "``table``" in own
    assert "``level``" in own
    assert "``conf``" in of_airflow
    assert "CompactionReport" in xcom


def test_the_items_of_an_index_are_its_children() -> None:
    text = (
        "# T\n\n- [One](one.md): first.\n- [Two](../two/index.md)\n- [Web](https://a.b/c.md)\n\nA [link](three.md).\n"
    )
    assert with_tree("how-to/index", text) == text + "\n```{toctree}\n:hidden:\n\n/how-to/one\n/two/index\n```\n"
    assert with_tree("how-to/upsert", text) == text


def test_a_link_to_a_page_outside_the_site_is_a_download() -> None:
    text = "[a](../../CONTRIBUTING.md#tests) [b](../reports.md#x) [c](d.md)"
    assert with_downloads("how-to/upsert", text) == "[a](path:../../CONTRIBUTING.md) [b](../reports.md#x) [c](d.md)"
