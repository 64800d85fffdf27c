"""Arguments of the official operator: refused by their names, when a DAG is parsed or before Spark is started."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from tests.unit.operators.submitted import refusal

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection", "spark_connection", "job_directory")

LISTS = ["files", "py_files", "archives", "jars", "packages", "exclude_packages", "repositories"]
TEXTS = [
    *("executor_memory", "driver_memory", "driver_class_path", "properties_file", "keytab", "principal"),
    *("proxy_user", "name", "yarn_queue", "deploy_mode", "spark_binary"),
]
TEMPLATE = "{{ params.x }}"


def compaction(**arguments: Any) -> LakeCompactionOperator:
    return LakeCompactionOperator(task_id="c", **{"table": "shop.orders", "level": "full", **arguments})


@pytest.mark.parametrize("name", LISTS)
def test_a_list_where_spark_takes_one_text_is_refused_with_that_text(name: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"{name} must be one text with commas, such as 'a,b', got \['a'"):
        compaction(**{name: ["a", "b"]})


@pytest.mark.parametrize("name", [*LISTS, *TEXTS])
def test_a_number_or_blanks_where_spark_takes_a_text_are_refused(name: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"{name} must be a text, got 1024"):
        compaction(**{name: 1024})
    with pytest.raises(InvalidSpecError, match=rf"{name} must not be empty, got ' '"):
        compaction(**{name: " "})


@pytest.mark.parametrize(
    "name",
    [
        *("archives", "repositories", "executor_memory", "driver_memory", "yarn_queue", "deploy_mode", "spark_binary"),
        *("num_executors", "executor_cores", "total_executor_cores"),
    ],
)
def test_a_template_that_the_official_operator_would_hand_to_spark_as_it_is_is_refused(name: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"{name} is not templated, so .* would stay as it is"):
        compaction(**{name: TEMPLATE})

    class Sized(LakeCompactionOperator):
        template_fields = (*LakeCompactionOperator.template_fields, f"_{name}")

    of_template: dict[str, Any] = {name: TEMPLATE}
    Sized(task_id="s", table="shop.orders", **of_template)


@pytest.mark.parametrize("name", ["driver_memory", "executor_memory"])
@pytest.mark.parametrize("size", ["lots", "1.5g", "2 g", "-2g", "0g", "4gib", "g"])
def test_a_memory_that_is_no_size_of_spark_is_refused_before_it_starts(name: str, size: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"{name} must be a size of Spark such as '4g' or '512m', got '{size}'"):
        compaction(**{name: size})
    with pytest.raises(InvalidSpecError, match=r"conf\['spark\.\w+\.memory'\] must be a size of Spark such as '4g'"):
        compaction(conf={f"spark.{name.replace('_', '.')}": size})


@pytest.mark.parametrize("size", ["4g", "4G", "512m", "4096k", "2t", "4gb", "1024"])
def test_a_memory_as_spark_takes_it_is_none_to_refuse(size: str) -> None:
    compaction(executor_memory=size, driver_memory=size, conf={"spark.executor.memory": size})


COUNTS = {
    "num_executors": "spark.executor.instances",
    "executor_cores": "spark.executor.cores",
    "total_executor_cores": "spark.cores.max",
}


AT_LEAST = {"num_executors": 0, "executor_cores": 1, "total_executor_cores": 1}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("count", ["two", -1, "-1", 1.5, True, False, "2.0", [2], "99999999999"])
def test_a_count_that_is_none_is_refused_before_spark_starts(name: str, count: Any) -> None:
    words = f"must be a whole number of at least {AT_LEAST[name]}, such as 2, got "
    with pytest.raises(InvalidSpecError, match=f"{name} {words}"):
        compaction(**{name: count})
    with pytest.raises(InvalidSpecError, match=rf"conf\['{COUNTS[name]}'\] ({words}|must be a text)"):
        compaction(conf={COUNTS[name]: count})


@pytest.mark.parametrize("name", COUNTS)
def test_no_core_is_refused_and_no_executor_is_not_as_spark_may_allocate_some_later(name: str) -> None:
    arguments: list[dict[str, Any]] = [{name: "0"}, {name: "000"}, {"conf": {COUNTS[name]: 0}}]
    for given in arguments:
        if AT_LEAST[name]:
            with pytest.raises(InvalidSpecError, match=r"must be a whole number of at least 1, such as 2, got '0+'"):
                compaction(**given)
        else:
            compaction(**given)


def test_a_driver_without_a_core_is_refused_as_spark_submit_does_not_start_it() -> None:
    with pytest.raises(InvalidSpecError, match=r"conf\['spark\.driver\.cores'\] must be .* of at least 1"):
        compaction(conf={"spark.driver.cores": 0})


@pytest.mark.parametrize(("name", "setting"), COUNTS.items())
def test_a_count_as_spark_takes_it_is_none_to_refuse(name: str, setting: str) -> None:
    # Airflow leaves out a number of 0, as it does None.
    for count in (None, "", 0, 2, "2", "010"):
        compaction(**{name: count})
    compaction(conf={setting: 2})


@pytest.mark.parametrize("seconds", ["30", timedelta(seconds=30), -1, True, None, float("nan")])
def test_an_interval_of_polls_that_is_no_number_is_refused_before_anything_is_submitted(seconds: Any) -> None:
    with pytest.raises(InvalidSpecError, match="status_poll_interval must be a number of seconds such as 30, got "):
        compaction(status_poll_interval=seconds)
    compaction(status_poll_interval=0.5)


FLAGS = [
    *("verbose", "use_krb5ccache", "track_driver_via_k8s_api", "yarn_track_via_rm_api", "durable"),
    *("openlineage_inject_parent_job_info", "openlineage_inject_transport_info"),
]


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", ["{{ params.x }}", "no", 2, ["yes"]])
def test_a_switch_that_any_text_would_turn_on_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidSpecError, match=f"{name} (must be true or false, got|is not templated)"):
        compaction(**{name: value})


@pytest.mark.parametrize("name", FLAGS)
def test_a_switch_of_a_text_is_what_it_says(name: str) -> None:
    job = compaction(**{name: "False"})
    assert getattr(job, name if name == "durable" else f"_{name}") is False


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(("value", "truth"), [(0, False), (1, True), (None, False)])
def test_a_switch_that_airflow_takes_by_its_truth_is_what_that_is(name: str, value: Any, truth: bool) -> None:
    job = compaction(**{name: value})
    # Of it None means what Airflow has by default.
    expected = True if name == "durable" and value is None else truth
    assert getattr(job, name if name == "durable" else f"_{name}") is expected


@pytest.mark.parametrize("name", ["conf", "env_vars"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        # What they hold may be secret.
        ("spark.x=1", "must map the name of an option to its value, got a str$"),
        (["spark.x=1"], "must map the name of an option to its value, got a list$"),
        ({"x": None}, r"\['x'\] must be a text, a number or a boolean, got None"),
        ({"x": ["a"]}, r"\['x'\] must be a text, a number or a boolean, got .'a'."),
        ({"": "a"}, "must map the name of an option to its value, got the name ''"),
    ],
)
def test_settings_that_are_no_mapping_of_values_are_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"^{name}{words}" if words.startswith(r"\[") else f"^{name} {words}"):
        compaction(**{name: value})


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("spark.master", "the host of the Spark connection"),
        ("spark.submit.deployMode", "deploy_mode, or the extra 'deploy-mode' of the Spark connection"),
    ],
)
def test_settings_that_the_connection_says_are_refused_in_conf(setting: str, where: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"{setting}' is {where}. Set it there"):
        compaction(conf={setting: "cluster"})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("conf", {"spark.remote": "sc://h"}),
        ("conf", {"spark.api.mode": "Connect"}),
        ("env_vars", {"SPARK_REMOTE": "local"}),
        ("env_vars", {"SPARK_API_MODE": "connect"}),
        ("env_vars", {"SPARK_CONNECT_MODE": "1"}),
        ("env_vars", {"SPARK_CONNECT_MODE_ENABLED": ""}),
    ],
)
def test_a_session_of_spark_connect_is_refused(name: str, given: dict[str, str]) -> None:
    with pytest.raises(InvalidSpecError, match=rf"^{name}\['.*'\] asks for a session of Spark Connect"):
        compaction(**{name: given})
    compaction(conf={"spark.api.mode": "classic"}, env_vars={"SPARK_CONNECT_MODE": "0"})


def test_a_setting_that_a_param_left_empty_is_no_setting_of_the_value_none(context: Context) -> None:
    job = compaction(conf={"spark.executor.memory": TEMPLATE})
    job.render_template_fields({**context, "params": {"x": None}})
    refused = refusal(job, context)
    assert isinstance(refused, InvalidSpecError)
    assert str(refused).startswith("conf['spark.executor.memory'] must not be 'None'")


@pytest.mark.parametrize(
    ("name", "rendered"),
    [("conf", "{'spark.x': '1'}"), ("env_vars", "A=b"), ("jars", ["a.jar"]), ("jars", "None"), ("name", 5)],
)
def test_what_a_template_has_rendered_is_looked_at_before_spark_starts(
    context: Context, name: str, rendered: Any
) -> None:
    job = compaction(**{name: TEMPLATE})
    setattr(job, name, rendered)
    refused = refusal(job, context)
    assert isinstance(refused, InvalidSpecError)
    assert str(refused).startswith(f"{name} must")


def test_an_operator_of_an_author_may_have_fewer_templates() -> None:
    class Nightly(LakeCompactionOperator):
        template_fields = ("table",)

    job = Nightly(task_id="n", table="shop.orders", jars="a.jar")
    job.read_spark_arguments()
    assert job.jars == "a.jar"
    with pytest.raises(InvalidSpecError, match="jars must be one text with commas"):
        Nightly(task_id="n", table="shop.orders", jars=["a.jar"])


def test_default_args_are_looked_at_too() -> None:
    with pytest.raises(InvalidSpecError, match="jars must be one text with commas"):
        compaction(default_args={"jars": ["a.jar"]})
