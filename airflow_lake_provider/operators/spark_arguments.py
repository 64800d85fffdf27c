"""Arguments of SparkSubmitOperator, refused by their names where ``spark-submit`` could not be called with them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator

from airflow_lake_provider.contracts.argument_validation import flag, optional, options, path_text, text
from airflow_lake_provider.contracts.author_object import is_open, refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.driver_start import matched_files
from airflow_lake_provider.submission.spark_installation import asking_for_connect, refuse_mixed_installation

if TYPE_CHECKING:
    Base = SparkSubmitOperator
else:
    # An operator of Airflow's, as ``default_args`` and ``partial()`` are filled in by the arguments of such classes.
    Base = BaseOperator

# One text of several files or packages, by the name of the argument.
_LISTS = ("files", "py_files", "archives", "jars", "packages", "exclude_packages", "repositories")
_TEXTS = (
    *("executor_memory", "driver_memory", "driver_class_path", "properties_file", "keytab", "principal"),
    *("proxy_user", "name", "yarn_queue", "deploy_mode", "spark_binary"),
)
_MAPPINGS = ("conf", "env_vars")
_COUNTS = ("num_executors", "executor_cores", "total_executor_cores")
_INTERVAL = "status_poll_interval"
_COMMANDS = "post_submit_commands"
# Any text would turn them on.
_FLAGS = (
    *("verbose", "use_krb5ccache", "track_driver_via_k8s_api", "yarn_track_via_rm_api", "durable"),
    *("openlineage_inject_parent_job_info", "openlineage_inject_transport_info"),
)
# What Spark reads before a driver could say what is wrong with it: by the names of the arguments and of the settings.
_SIZES = ("executor_memory", "driver_memory", "spark.executor.memory", "spark.driver.memory")
# Executors may all be allocated later.
_WHOLE = ("num_executors", "spark.executor.instances")
_POSITIVE = (
    *("executor_cores", "total_executor_cores"),
    *("spark.executor.cores", "spark.cores.max", "spark.driver.cores"),
)
_SIZE = re.compile(r"\s*0*[1-9][0-9]*(?:b|[kmgtp]b?)?\s*", re.ASCII | re.IGNORECASE)
# An int of Java.
_COUNT = re.compile(r"0*[0-9]{1,9}", re.ASCII)
# As the launcher hands it to Java, which takes bytes, but none of so few.
_HEAP = re.compile(r"[0-9]+[kmgt]|[0-9]{8,}", re.ASCII | re.IGNORECASE)
# What the machine that submits reads; Spark goes on without a jar that is not there.
_FILES = ("jars", "py_files", "files", "archives", "keytab")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# Spark takes them from its command line, which says what the connection says.
_OF_CONNECTION = {
    "spark.master": "the host of the Spark connection",
    "spark.submit.deployMode": "deploy_mode, or the extra 'deploy-mode' of the Spark connection",
}


class SparkArguments(Base):
    """Part of an operator that hands arguments on to the official one, which looks at none of them.

    :param name: of the Spark application; None for the operator and its task (templated).
    :param of_spark_submit: arguments of SparkSubmitOperator.
    """

    spark_conn_id: str

    def __init__(self, *, name: str | None = None, **of_spark_submit: Any) -> None:
        self._is_named_here = name is None
        named = f"{type(self).__name__} {of_spark_submit.get('task_id', '')}" if name is None else name
        super().__init__(name=named, **of_spark_submit)
        for name in (*_LISTS, *_TEXTS, *_MAPPINGS, *_COUNTS, _INTERVAL, _COMMANDS, *_FLAGS):
            value = getattr(self, _attribute(name))
            if _attribute(name) not in (*SparkSubmitOperator.template_fields, *self.template_fields):
                refuse_template(value, name)
            if not is_open(value):
                read = _read(value, name)
                if name in _FLAGS:
                    setattr(self, _attribute(name), read)

    def read_spark_arguments(self) -> None:
        """Read the arguments as they were rendered; an empty text is one that was left out.

        :raises InvalidSpecError: naming the one that cannot be.
        """
        self._conn_id = text(self.spark_conn_id, "spark_conn_id")
        for name in (*_LISTS, *_TEXTS, *_MAPPINGS, *_COUNTS, _COMMANDS, *_FLAGS):
            attribute = _attribute(name)
            setattr(self, attribute, _read(getattr(self, attribute), name))

    def target_of_submission(self) -> SparkTarget:
        """Read the Spark connection.

        :raises InvalidConnectionError: as of :meth:`SparkTarget.read`; so UnsupportedError.
        :raises InvalidSpecError: likewise, or the Java of this worker has no such heap.
        """
        target = SparkTarget.read(self.spark_conn_id, self._deploy_mode)
        heap, name = getattr(self, _attribute("driver_memory")), "driver_memory"
        if not heap:
            heap, name = (self.conf or {}).get("spark.driver.memory"), "spark.driver.memory"
        if not target.cluster_mode and heap is not None and not _HEAP.fullmatch(str(heap)):
            raise InvalidSpecError(
                f"{name} must be a size of Java such as '4g' or '512m' where the driver runs on the worker, got "
                f"{heap!r}. Nothing was submitted"
            )
        return target

    def refuse_submission(self) -> None:
        """Refuse to submit what this worker cannot; it may still follow what another one has submitted.

        :raises InvalidSpecError: a file is not here.
        :raises UnsupportedError: as of :func:`refuse_mixed_installation`.
        """
        refuse_mixed_installation()
        for name in _FILES:
            for path in (getattr(self, _attribute(name)) or "").split(","):
                if path.strip() and _is_missing(path.strip()):
                    raise InvalidSpecError(
                        f"{name} has {path.strip()!r}, which this worker cannot read in {str(Path.cwd())!r}; write the "
                        "path of a file that is there, or an address such as 's3a://...'. Nothing was submitted"
                    )


def _attribute(name: str) -> str:
    """Return where the official operator keeps an argument: below its name if it is templated."""
    return name if name in (*SparkSubmitOperator.template_fields, "durable") else f"_{name}"


def _read(value: Any, name: str) -> Any:
    if name in _MAPPINGS:
        return _read_mapping(value, name)
    if name in _LISTS and isinstance(value, (list, tuple, set)):
        joined = ",".join(map(str, value))
        raise InvalidSpecError(f"{name} must be one text with commas, such as {joined!r}, got {value!r}")
    if name in _FLAGS:
        # Airflow takes them by their truth.
        return flag(bool(value) if value in (None, 0, 1) else value, name)
    if name == _COMMANDS:
        return _read_commands(value, name) if value else None
    if name == _INTERVAL:
        return _read_seconds(value, name)
    if name in _COUNTS:
        # Airflow leaves out a number of 0.
        is_left_out = value is None or value == "" or (type(value) is int and value == 0)
        return value if is_left_out else _fitting(value, name, name)
    given = optional(text)(path_text(value, name), name)
    return given if given is None else _fitting(given, name, name)


def _is_missing(name: str) -> bool:
    """Tell whether a file of this machine cannot be read; an address is Spark's to look for."""
    # Spark unpacks what is before the sign under the name behind it.
    path = name.partition("#")[0]
    if path[:5].lower() == "file:":
        # A sign of a glob, and of no query.
        path = unquote(urlsplit(path.replace("?", "%3F")).path)
    elif _ADDRESS.match(path):
        return False
    return not os.access(path, os.R_OK) and not matched_files(path)


def _read_commands(value: Any, name: str) -> list[str]:
    """Return the commands but for those that a template left blank; an error shows none, as they may have secrets."""
    # Of a text, each letter would be a command.
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidSpecError(f"{name} must be a list of commands, got a {type(value).__name__}")
    for number, command in enumerate(value):
        if not isinstance(command, str):
            raise InvalidSpecError(f"{name}[{number}] must be a text, got a {type(command).__name__}")
    return [command for command in value if command.strip()]


def _read_seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise InvalidSpecError(f"{name} must be a number of seconds such as 30, got {value!r}")
    return value


def _fitting(value: Any, what: str, name: str) -> Any:
    """Return a value that Spark can read.

    :param what: name of the argument, or of the setting of Spark.
    :param name: for the message.
    """
    if what in _SIZES and not _SIZE.fullmatch(str(value)):
        raise InvalidSpecError(f"{name} must be a size of Spark such as '4g' or '512m', got {value!r}")
    least = 1 if what in _POSITIVE else 0
    if what in (*_WHOLE, *_POSITIVE) and not (_COUNT.fullmatch(str(value)) and int(value) >= least):
        raise InvalidSpecError(f"{name} must be a whole number of at least {least}, such as 2, got {value!r}")
    return value


def _read_mapping(value: Any, name: str) -> Mapping[str, Any] | None:
    if value is None or value == "":
        return None
    if not isinstance(value, Mapping):
        # Its text may have secrets.
        raise InvalidSpecError(f"{name} must map the name of an option to its value, got a {type(value).__name__}")
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
    if (asking := asking_for_connect(texts)) is not None:
        raise InvalidSpecError(
            f"{name}[{asking!r}] asks for a session of Spark Connect, and a job has a driver of its own; leave it "
            "out. The Spark connection says where the job runs"
        )
    if name == "conf":
        for setting, given in texts.items():
            _fitting(given, setting, f"conf[{setting!r}]")
    # A command line, and the environment of a process, have texts alone.
    return texts if name == "env_vars" else {setting: str(given) for setting, given in value.items()}
