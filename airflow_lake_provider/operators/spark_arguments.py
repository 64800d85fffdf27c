"""Arguments of SparkSubmitOperator, refused by their names where ``spark-submit`` could not be called with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_lake_provider.contracts.argument_validation import optional, options, text
from airflow_lake_provider.contracts.author_object import is_open, refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError

if TYPE_CHECKING:
    Base = SparkSubmitOperator
else:
    Base = object

# One text of several files or packages, by the name of the argument.
_LISTS = ("files", "py_files", "archives", "jars", "packages", "exclude_packages", "repositories")
_TEXTS = (
    *("executor_memory", "driver_memory", "driver_class_path", "properties_file", "keytab", "principal"),
    *("proxy_user", "name", "yarn_queue", "deploy_mode", "spark_binary"),
)
_MAPPINGS = ("conf", "env_vars")
_NUMBERS = ("num_executors", "executor_cores", "total_executor_cores")
# Spark takes them from its command line, which says what the connection says.
_OF_CONNECTION = {
    "spark.master": "the host of the Spark connection",
    "spark.submit.deployMode": "deploy_mode, or the extra 'deploy-mode' of the Spark connection",
}


class SparkArguments(Base):
    """Part of an operator that hands arguments on to the official one, which looks at none of them.

    :param spark_arguments: arguments of SparkSubmitOperator.
    """

    spark_conn_id: str

    def __init__(self, **spark_arguments: Any) -> None:
        super().__init__(**spark_arguments)
        for name in (*_LISTS, *_TEXTS, *_MAPPINGS, *_NUMBERS):
            value = getattr(self, _attribute(name))
            if _attribute(name) not in (*SparkSubmitOperator.template_fields, *self.template_fields):
                refuse_template(value, name)
            if name not in _NUMBERS and not is_open(value):
                _read(value, name)

    def read_spark_arguments(self) -> None:
        """Read the arguments as they were rendered; an empty text is one that was left out.

        :raises InvalidSpecError: naming the one that cannot be.
        """
        self._conn_id = text(self.spark_conn_id, "spark_conn_id")
        for name in (*_LISTS, *_TEXTS, *_MAPPINGS):
            attribute = _attribute(name)
            setattr(self, attribute, _read(getattr(self, attribute), name))


def _attribute(name: str) -> str:
    """Return where the official operator keeps an argument: below its name if it is templated."""
    return name if name in SparkSubmitOperator.template_fields else f"_{name}"


def _read(value: Any, name: str) -> Any:
    if name in _MAPPINGS:
        return _read_mapping(value, name)
    if name in _LISTS and isinstance(value, (list, tuple, set)):
        joined = ",".join(map(str, value))
        raise InvalidSpecError(f"{name} must be one text with commas, such as {joined!r}, got {value!r}")
    return optional(text)(value, name)


def _read_mapping(value: Any, name: str) -> Mapping[str, Any] | None:
    if value is None or value == "":
        return None
    texts = options(value, name)
    if name == "conf" and (refused := _OF_CONNECTION.keys() & texts.keys()):
        named = "; ".join(f"{setting!r} is {_OF_CONNECTION[setting]}" for setting in sorted(refused))
        raise InvalidSpecError(
            f"conf has settings that the worker has to know before it submits: {named}. Set it there"
        )
    if name == "conf" and (unset := [setting for setting, given in texts.items() if given == "None"]):
        raise InvalidSpecError(
            f"conf[{unset[0]!r}] must not be 'None', which a template makes of a param without a value; write "
            "{{ params.x or '1g' }}, with a value that holds then"
        )
    # The environment of a process has texts alone.
    return texts if name == "env_vars" else value
