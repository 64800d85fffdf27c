"""The file in which a job travels from the worker to the driver: its tasks, a spec each."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from airflow_lake_provider.contracts.argument_validation import text
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_plain, to_json
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import (
    CreateTagSpec,
    DropTagSpec,
    MetadataChangeSpec,
    PublishBranchSpec,
    RollbackSpec,
    TableUpgradeSpec,
)
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec


def _by_action(*specs: type[JobSpec]) -> dict[str, type[JobSpec]]:
    return {spec.action: spec for spec in specs}


_OF_ROWS_AND_FILES = (
    UpsertSpec,
    AppendSpec,
    OverwritePartitionsSpec,
    CompactionSpec,
    RewriteManifestsSpec,
    StatisticsSpec,
    SnapshotExpirySpec,
    OrphanFilesSpec,
    IncrementalSpec,
    DeleteRowsSpec,
    UpdateRowsSpec,
    RowExpirySpec,
)
_OF_METADATA = (RollbackSpec, PublishBranchSpec, CreateTagSpec, DropTagSpec, TableUpgradeSpec)
_TASK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Actions that an author may ask for, and those that a driver carries out.
AUTHORED = _by_action(*_OF_ROWS_AND_FILES, *_OF_METADATA)
SPECS = _by_action(*_OF_ROWS_AND_FILES, MetadataChangeSpec)


@dataclass(frozen=True)
class Job:
    """Tasks that one Spark application carries out; those of one table one after another, in this order.

    :param tasks: by name, under which each has its report.
    :param parallelism: tasks that run at a time.
    """

    tasks: Mapping[str, JobSpec]
    parallelism: int = 1


def written_task(value: object, name: str) -> JobSpec:
    """Return the spec of a task as an author gives it, with what is open in it.

    :param value: a mapping of an operator's arguments with ``action`` and maybe ``name``, or a spec.
    :param name: of the task, for messages.
    :raises InvalidSpecError: the action or an argument is not known, or cannot be what it is.
    """
    if isinstance(value, JobSpec):
        return value
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must map the arguments of an operator and 'action', got {value!r}")
    given = dict(value)
    action = given.pop("action", None)
    if not isinstance(action, str) or action not in AUTHORED:
        actions = ", ".join(map(repr, AUTHORED))
        raise InvalidSpecError(f"{name} needs an action, one of {actions}, got {action!r}")
    task_name = given.pop("name", None)
    spec = AUTHORED[action].from_mapping(given, name)
    return spec if task_name is None else replace(spec, task_name=_task_name(task_name, f"{name}: name"))


def is_task_name(value: object) -> TypeGuard[str]:
    """Tell whether a value can be the name of a task."""
    return isinstance(value, str) and _TASK_NAME.fullmatch(value) is not None


def _task_name(value: object, name: str) -> str:
    task_name = text(value, name)
    if not is_task_name(task_name):
        raise InvalidSpecError(
            f"{name} must have 1 to 64 letters, digits, '_', '-' or '.', and is no template, got {task_name!r}"
        )
    return task_name


def job_to_json(job: Job) -> str:
    """Write a job for the driver.

    :raises InvalidSpecError: a text of it is none that Java can take.
    """
    tasks = [{"name": name, **spec_to_plain(spec)} for name, spec in job.tasks.items()]
    return to_json({"parallelism": job.parallelism, "tasks": tasks})


def job_from_plain(plain: dict[str, Any]) -> Job:
    """Read what :func:`job_to_json` wrote.

    :raises InvalidSpecError: for an action or a field that this version does not know.
    """
    tasks = {task["name"]: spec_from_plain(task) for task in plain["tasks"]}
    return Job(tasks, parallelism=plain["parallelism"])


def spec_to_plain(spec: JobSpec) -> dict[str, Any]:
    """Return a spec with its action as JSON has it.

    :raises InvalidSpecError: a text of it is none that Java can take.
    """
    return {"action": spec.action, "spec": spec.to_json_data()}


def spec_from_plain(plain: dict[str, object]) -> JobSpec:
    """Read what :func:`spec_to_plain` returned.

    :raises InvalidSpecError: for an action or a field that this version does not know.
    """
    action = str(plain.get("action"))
    if action not in SPECS:
        raise InvalidSpecError(f"action {action!r} is not known; known are {', '.join(SPECS)}")
    _import_source(plain["spec"])
    spec: JobSpec = from_plain(SPECS[action], plain["spec"])
    return spec.checked()


def _import_source(plain: Any) -> None:
    """Import the class of an author's own source, which its ``type`` names.

    Only a driver does so, with what a worker has made of an object: nobody's data names a module.

    :raises InvalidSpecError: it did not travel.
    """
    source = plain.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(kind, str) or ":" not in kind:
        return
    try:
        importlib.import_module(kind.partition(":")[0])
    except ImportError as error:
        raise InvalidSpecError(
            f"the source {kind!r} cannot be imported by the driver: {error}; let its file travel by py_files"
        ) from error
