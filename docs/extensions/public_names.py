"""List what the reference has to hold: every public class and function of the package, with its parameters."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import airflow_lake_provider
from airflow_lake_provider.contracts import errors
from airflow_lake_provider.contracts.reports import job, report_codec
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.get_provider_info import get_provider_info
from airflow_lake_provider.operators.worker_action import WorkerAction

PACKAGE = "airflow_lake_provider"
REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "python"
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function):: (\S+)$", re.MULTILINE)
PARAMETER = re.compile(r"^\s*:param (\w+):", re.MULTILINE)

# Beside what Airflow is told of and what authors import from the package: bases, functions, and choices of authors.
OTHERS = (
    "operators.lake_job.LakeJobOperator",
    "operators.spark_application.SparkApplicationOperator",
    "operators.lake_application.lake_application",
    "operators.lake_maintenance.lake_maintenance",
    "hooks.table_health.table_health",
    *(f"hooks.table_policy.{name}" for name in ("table_policies", "PolicyReader")),
    *(f"maintenance.policy.{name}" for name in ("TablePolicy", "EffectiveValue", "IgnoredValue", "Layer")),
    *(f"contracts.author.maintenance_policy.{name}Policy" for name in ("Maintenance", "Compaction", "Expiry")),
    *(
        f"contracts.author.maintenance_policy.{name}Policy"
        for name in ("Manifest", "Orphan", "RowExpiry", "Statistics", "Tag", "Tuning")
    ),
    "contracts.author.maintenance_policy.OrphanMode",
    "contracts.author.maintenance_policy.CompactionRunner",
    "contracts.author.maintenance_policy.Verification",
    "contracts.curve_order.CurveOrder",
    *(f"contracts.author.maintenance_policy.Compaction{name}" for name in ("Level", "Strategy")),
    "contracts.setting_kinds.Hours",
    *(f"maintenance.health.{name}" for name in ("TableHealth", "FileSizes", "DeleteDebt", "PartitionDeletes")),
    *(f"maintenance.health.{name}" for name in ("ManifestSizes", "OrphanCount")),
    *(f"maintenance.history.{name}" for name in ("SnapshotAges", "CommitRate", "Growth", "MaintenanceRun")),
    "maintenance.history.ConsumerLag",
    "maintenance.hot_partitions.HotPartition",
    *(f"maintenance.score.{name}" for name in ("ScorePart", "HealthLimits")),
    "hooks.table_plans.table_plans",
    *(f"maintenance.plan.{name}" for name in ("TablePlan", "PlannedAction", "Reason", "Effect", "NotPlanned")),
    "hooks.maintenance_history.MaintenanceHistory",
    "contracts.reports.history_entry.HistoryEntry",
    *(
        f"contracts.reports.batch_plan.{name}"
        for name in ("BatchPlan", "PutAsideRecord", "SchemaChange", "SchemaChangeKind")
    ),
    "hooks.maintenance_history.Remembered",
    "maintenance.past_outcomes.PastOutcome",
    "assets.lake_table.lake_table_asset",
    "assets.lake_table.snapshot_event",
    "assets.lake_table.watches",
    "contracts.author.sources.Source",
    "contracts.author.sources.OnSourceChange",
    *(f"contracts.author.kafka_topic.{name}" for name in ("ValueFormat", "KeyFormat", "Tombstones", "OnGap")),
    "contracts.applied.event_marks.EventOrdering",
    "contracts.author.debezium_connector.BinaryHandling",
    "contracts.author.debezium_connector.DecimalHandling",
    "contracts.author.lake_tables.ChangeMode",
    "contracts.author.merge_engines.MergeEngine",
    "contracts.author.merge_engines.Deletes",
    "contracts.author.schema_contract.Evolution",
    "contracts.author.schema_contract.MissingColumns",
    "spark_jobs.read_changes.read_changes",
)


def is_ours(cls: type) -> bool:
    """Tell whether a class is of this package.

    :param cls: any class.
    """
    return cls.__module__.split(".")[0] == PACKAGE


def named(path: str) -> Any:
    """Return the class or function of a dotted path.

    :param path: module and name.
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_names() -> list[str]:
    """Return the dotted path of each public class and function, sorted."""
    info = get_provider_info()
    told = [
        module
        for kind in ("operators", "sensors", "triggers", "hooks")
        for entry in info[kind]
        for module in entry["python-modules"]
    ]
    modules = [*map(importlib.import_module, told), errors]
    classes = [cls for module in modules for cls in vars(module).values() if _is_public(cls, module.__name__)]
    reports = [job.JobReport, job.LoadReport, *report_codec.REPORTS.values(), TableState, job.Outcome]
    # Under their modules, as the signatures of operators name them.
    imported = [getattr(airflow_lake_provider, name) for name in airflow_lake_provider.__all__]
    paths = {f"{cls.__module__}.{cls.__qualname__}" for cls in (*classes, *reports, *imported)}
    return sorted(paths | {f"{PACKAGE}.{name}" for name in OTHERS})


def _is_public(value: object, module: str) -> bool:
    if not inspect.isclass(value) or issubclass(value, WorkerAction):
        return False
    return value.__module__ == module and not value.__name__.startswith("_")


def listed_names() -> list[str]:
    """Return the dotted paths that the pages of the reference name, as often as they do."""
    return [path for page in sorted(REFERENCE.glob("*.md")) for path in DIRECTIVE.findall(page.read_text())]


def constructor_arguments(cls: type) -> Iterator[inspect.Parameter]:
    """Yield the parameters that a class takes, its own before those of its bases in this package.

    :param cls: a class of the package.
    """
    seen: set[str] = set()
    for base in cls.__mro__:
        if is_ours(base) and "__init__" in vars(base) and not issubclass(base, (Enum, BaseException)):
            for parameter in parameters_of(base):
                if parameter.name not in seen:
                    seen.add(parameter.name)
                    yield parameter


def parameters_of(value: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that the signature of a class or function shows.

    :param value: what is called.
    """
    return list(inspect.signature(value).parameters.values())


def own_parameters(value: type | Callable[..., Any]) -> list[str]:
    """Return the parameters that belong to the entry of a class or function itself, without those of its bases.

    :param value: a class or function.
    """
    if not isinstance(value, type):
        return [each.name for each in parameters_of(value)]
    inherited = {each.name for base in value.__bases__ if is_ours(base) for each in constructor_arguments(base)}
    return [each.name for each in constructor_arguments(value) if each.name not in inherited]


def documented(value: type | Callable[..., Any]) -> set[str]:
    """Return the parameters that a docstring describes; of a class also those of its bases in this package.

    :param value: a class or function.
    """
    described = [base for base in value.__mro__ if is_ours(base)] if isinstance(value, type) else [value]
    return {name for each in described for name in PARAMETER.findall(each.__doc__ or "")}


def undocumented(value: type | Callable[..., Any]) -> list[str]:
    """Return the parameters that no docstring describes.

    :param value: a class or function.
    """
    found = constructor_arguments(value) if isinstance(value, type) else parameters_of(value)
    return [each.name for each in found if each.name not in documented(value)]


def unknown(value: type | Callable[..., Any]) -> list[str]:
    """Return what the docstring describes and the signature has not; a base's keywords may stand for some of them.

    :param value: a class or function.
    """
    known = {each.name for each in (constructor_arguments(value) if isinstance(value, type) else parameters_of(value))}
    if is_dataclass(value):
        known |= {field.name for field in fields(value)}
    return sorted(documented(value) - known)
