"""The DAG on the page of pools loads as a file, and the scheduler reads of it what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_examples import BLOCK

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "pools.md"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tasks by id, as the scheduler reads them."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    (code,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    file = tmp_path_factory.mktemp("dags") / "shop.py"
    file.write_text(code)
    bag: Any = DagBag(dag_folder=file.parent, collect_dags=False)
    bag.process_file(str(file))
    assert bag.import_errors == {}
    read: Any = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags["shop"]))
    return dict(read.task_dict)


def test_drivers_share_a_pool_and_the_sensor_waits_outside_of_it(tasks: dict[str, Any]) -> None:
    assert {task.task_id: (task.pool, task.pool_slots) for task in tasks.values()} == {
        "delivered": ("default_pool", 1),
        "orders": ("spark", 1),
        "history": ("spark", 2),
        "compaction": ("spark", 1),
    }


def test_weights_are_taken_as_they_are_and_not_summed_along_the_dag(tasks: dict[str, Any]) -> None:
    weights = {name: task.priority_weight for name, task in tasks.items()}
    assert weights == {"delivered": 1, "orders": 10, "history": 1, "compaction": 1}
    assert {type(task.weight_rule).__name__ for task in tasks.values()} == {"_AbsolutePriorityWeightStrategy"}
    assert set(tasks["orders"].downstream_task_ids) == {"compaction"}
