"""A param of a form that was left empty is None, which a template writes as the text ``None``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_lake_provider.contracts.author.sources import Debezium, Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.row_expiry import LakeRowExpiryOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

UPSERT = {"table": "shop.orders", "source": "in/*.parquet", "keys": ["id"]}
OVERWRITE = {"table": "shop.orders", "source": "in/*.parquet"}

pytestmark = pytest.mark.usefixtures("lake_connection", "spark_connection")


def spec_of(
    operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], context: Context, *, native: bool = False
) -> JobSpec:
    """Return the spec of a task whose DAG has a param ``x`` that nobody has filled in."""
    with DAG("orders", schedule=None, render_template_as_native_obj=native):
        job = operator(task_id="t", **arguments)
    rendered: Any = {**context, "params": {"x": None}}
    job.render_template_fields(rendered)
    spec: JobSpec = job.build_spec(rendered)
    return spec


OPTIONAL = [
    pytest.param(LakeUpsertOperator, UPSERT, "branch", id="branch"),
    pytest.param(LakeUpsertOperator, UPSERT, "batch_id", id="batch_id"),
    pytest.param(LakeOverwritePartitionsOperator, OVERWRITE, "where", id="where"),
    pytest.param(LakeCompactionOperator, {"table": "shop.orders"}, "where", id="where-of-a-compaction"),
]

ORDERS = {"table": "shop.orders"}
REQUIRED = [
    pytest.param(LakeCreateTagOperator, ORDERS, "tag", id="tag"),
    pytest.param(LakeDropTagOperator, ORDERS, "tag", id="dropped-tag"),
    pytest.param(LakePublishBranchOperator, ORDERS, "branch", id="published-branch"),
    pytest.param(LakeDeleteRowsOperator, ORDERS, "where", id="where-of-a-deletion"),
    pytest.param(LakeUpdateRowsOperator, {**ORDERS, "assignments": {"a": "1"}}, "where", id="where-of-an-update"),
]
NAMES = [*REQUIRED[:3], *OPTIONAL[:2]]


@pytest.mark.parametrize(("operator", "arguments", "name"), OPTIONAL)
def test_an_empty_param_is_no_branch_batch_or_predicate_of_the_name_none(
    context: Context, operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidSpecError, match=rf"{name} must not be 'None'.*params\.x or ''"):
        spec_of(operator, {**arguments, name: "{{ params.x }}"}, context)


@pytest.mark.parametrize(("operator", "arguments", "name"), OPTIONAL)
@pytest.mark.parametrize(
    ("template", "native"), [("{{ params.x or '' }}", False), ("{{ params.x or '' }}", True), ("{{ params.x }}", True)]
)
def test_an_empty_param_leaves_an_argument_out_where_its_template_says_so_or_is_native(
    context: Context,
    operator: type[LakeJobOperator[Any]],
    arguments: dict[str, Any],
    name: str,
    template: str,
    native: bool,
) -> None:
    left_out = spec_of(operator, arguments, context)
    assert spec_of(operator, {**arguments, name: template}, context, native=native) == left_out


@pytest.mark.parametrize(("operator", "arguments", "name"), REQUIRED)
def test_an_empty_param_names_no_tag_branch_or_rows(
    context: Context, operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidSpecError, match=rf"{name} must not be 'None'.*params\.x"):
        spec_of(operator, {**arguments, name: "{{ params.x }}"}, context)


@pytest.mark.parametrize(("operator", "arguments", "name"), NAMES)
@pytest.mark.parametrize("native", [False, True])
def test_a_template_that_renders_digits_is_a_name(
    context: Context, operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], name: str, native: bool
) -> None:
    spec = spec_of(operator, {**arguments, name: "{{ 20261129 }}"}, context, native=native)
    assert getattr(spec, name) == "20261129"


@pytest.mark.parametrize(("operator", "arguments", "name"), NAMES)
@pytest.mark.parametrize("text", ["2026_1_12", "2026_11_2", "0x10", "+5"])
def test_a_native_template_makes_no_number_of_a_name_that_only_python_reads_as_one(
    context: Context, operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], name: str, text: str
) -> None:
    spec = spec_of(operator, {**arguments, name: f"{{{{ '{text}' }}}}"}, context, native=True)
    assert getattr(spec, name) == text


@pytest.mark.parametrize("given", [True, 1.5, [1]])
def test_what_is_no_whole_number_is_no_name(context: Context, given: Any) -> None:
    with pytest.raises(InvalidSpecError, match="batch_id must be a text"):
        spec_of(LakeUpsertOperator, {**UPSERT, "batch_id": given}, context)


def test_an_empty_param_is_no_name_of_a_source(context: Context) -> None:
    source = Files("in/*.parquet", name="{{ params.x }}")
    with pytest.raises(InvalidSpecError, match=r"Files\.name must not be 'None'"):
        spec_of(LakeUpsertOperator, {**UPSERT, "source": source}, context)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("text", ["20261129", "2026_1_12"])
def test_a_template_that_renders_digits_is_the_name_of_a_source(context: Context, native: bool, text: str) -> None:
    source = Files("in/*.parquet", name=f"{{{{ '{text}' }}}}")
    spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": source}, context, native=native)
    assert isinstance(spec, UpsertSpec)
    assert spec.source.name == text


def test_a_name_that_only_begins_so_is_a_name(context: Context) -> None:
    spec = spec_of(LakeUpsertOperator, {**UPSERT, "branch": "None{{ params.x }}"}, context)
    assert isinstance(spec, UpsertSpec)
    assert spec.branch == "NoneNone"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "template", ["{{ ['in/a.csv', 'in/b.csv'] }}", '{{ ["in/a.csv"] | tojson }}', "{{ params.x }}"]
)
def test_a_list_or_an_empty_param_is_no_path_that_matches_nothing(
    context: Context, template: str, native: bool
) -> None:
    for source in (Files(template, format="csv"), Debezium(template, table="public.orders")):
        with pytest.raises(InvalidSpecError, match=r"\.path must (be one path or glob|be a text|not be 'None')"):
            spec_of(LakeUpsertOperator, {**UPSERT, "source": source}, context, native=native)


@pytest.mark.parametrize("path", ["in/[ab]*.csv", "[ab]/*.csv", "in/['].csv", "(a)/*.csv"])
def test_a_glob_with_brackets_is_a_path(context: Context, path: str) -> None:
    spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": Files(path)}, context)
    assert isinstance(spec, UpsertSpec)
    assert isinstance(spec.source, Files)
    assert spec.source.path == path


LIMITS = [
    pytest.param(LakeRowExpiryOperator, {**ORDERS, "column": "day", "keep": "P30D"}, "before", id="before"),
    pytest.param(LakeRollbackOperator, {**ORDERS, "tag": "good"}, "expected_snapshot_id", id="expected_snapshot_id"),
]


@pytest.mark.parametrize(("operator", "arguments", "name"), LIMITS)
@pytest.mark.parametrize("of", ["XCom", "a native template"])
def test_what_gives_none_lifts_no_limit_of_the_author(
    context: Context, operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], name: str, of: str
) -> None:
    with DAG("orders", schedule=None, render_template_as_native_obj=True):
        look: Any = EmptyOperator(task_id="look").output
        given = look["limit"] if of == "XCom" else "{{ params.x }}"
        job = operator(task_id="t", **arguments, **{name: given})
    ti = SimpleNamespace(dag_id="orders", task_id="t", map_index=-1, xcom_pull=lambda **_: None)
    rendered: Any = {**context, "ti": ti, "params": {"x": None}, "expanded_ti_count": None}
    job.render_template_fields(rendered)
    with pytest.raises(InvalidSpecError, match=rf"{name} must not be 'None'.*XCom without a value"):
        job.written()


@pytest.mark.parametrize("by_mappings", [False, True])
@pytest.mark.parametrize(("operator", "arguments", "name"), LIMITS)
def test_a_mapped_task_keeps_its_limit_unless_its_author_wrote_none(
    operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], name: str, by_mappings: bool
) -> None:
    def instance(over: Any) -> Any:
        partial = operator.partial(task_id="t", **arguments)
        mapped: Any = partial.expand_kwargs(over) if by_mappings else partial.expand(**{name: over})
        return mapped.unmap({name: None}).written()

    with DAG("orders", schedule=None):
        look: Any = EmptyOperator(task_id="look").output
        with pytest.raises(InvalidSpecError, match=rf"{name} must not be 'None'.*XCom without a value"):
            instance(look)
    with DAG("orders", schedule=None):
        assert getattr(instance([{name: None}] if by_mappings else [None]), name) is None


def test_a_task_of_an_application_keeps_its_limit_too() -> None:
    given: dict[str, Any] = {**ORDERS, "column": "day", "keep": "P30D", "before": "{{ params.x }}"}
    written = RowExpirySpec(**given)
    with pytest.raises(InvalidSpecError, match="before must not be 'None'"):
        written.rendered(lambda _: None).checked()
    assert written.rendered(lambda _: "").checked().before is None


def test_a_limit_is_left_out_where_its_template_says_so(context: Context) -> None:
    arguments = {**ORDERS, "column": "day", "keep": "P30D", "before": "{{ params.x or '' }}"}
    spec = spec_of(LakeRowExpiryOperator, arguments, context, native=True)
    assert isinstance(spec, RowExpirySpec)
    assert spec.before is None
