"""Tell of keys in a run's ``conf`` that no param of its DAG has: Airflow takes them, and they may do nothing."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from airflow_lake_provider.contracts.property_values import shown

if TYPE_CHECKING:
    from airflow.sdk import Context

# Whoever triggers a run chooses the keys and how many.
_MOST_NAMED = 10


class TaskWithParams(Protocol):
    """Parts of an operator that say what ``conf`` may have."""

    params: Any

    @property
    def dag_id(self) -> str:
        """Id of that DAG."""

    @property
    def dag(self) -> Any:
        """The DAG that it is defined in."""

    def has_dag(self) -> bool:
        """Tell whether it is defined in a DAG."""


def unknown_conf(operator: TaskWithParams, context: Context) -> str | None:
    """Return a sentence that names them, with the params that they may be meant for.

    :return: None without any, and for a DAG without params, whose templates read ``dag_run.conf`` as they like.
    """
    conf = getattr(context.get("dag_run"), "conf", None)
    params = [*operator.dag.params, *operator.params] if operator.has_dag() else []
    if not isinstance(conf, Mapping) or not params:
        return None
    unknown = sorted(str(key) for key in conf if key not in params)
    if not unknown:
        return None
    meant = {key: difflib.get_close_matches(key, params, n=1) for key in unknown[:_MOST_NAMED]}
    named = [f"{shown(key)}{f' (did you mean {alike[0]!r}?)' if alike else ''}" for key, alike in meant.items()]
    more = f" and {len(unknown) - len(named):,} more" if len(unknown) > len(named) else ""
    return (
        f"the run's conf has keys that no param of DAG {operator.dag_id} has: {', '.join(named)}{more}. They change "
        f"nothing unless a template reads them. Params are {', '.join(sorted(set(params)))}"
    )
