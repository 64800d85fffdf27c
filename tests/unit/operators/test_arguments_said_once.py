"""An argument stands at most four times on its way: signature, docstring, field of the spec, one use."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

import pytest

from airflow_lake_provider.contracts.specs.job import Argument, JobSpec
from airflow_lake_provider.operators import lake_application
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

MOST = 4
OPERATORS: list[type[LakeJobOperator[Any]]] = [
    LakeUpsertOperator,
    LakeIncrementalOperator,
    LakeDeleteRowsOperator,
    LakeUpdateRowsOperator,
    LakeCompactionOperator,
    LakeSnapshotExpiryOperator,
    LakeRollbackOperator,
    LakePublishBranchOperator,
    LakeCreateTagOperator,
    LakeDropTagOperator,
    LakeTableUpgradeOperator,
]
# Of every operator, in LakeJobOperator.
SHARED = ("table",)


def named_in(source: str, name: str) -> int:
    """Count the parameters, names, attributes, keywords and texts of a class that are a name, and its ``:param``."""
    tree = ast.parse(textwrap.dedent(source))
    found = 0
    for node in ast.walk(tree):
        spelt = (
            getattr(node, "arg", None),
            getattr(node, "attr", None),
            getattr(node, "id", None),
            getattr(node, "value", None) if isinstance(node, ast.Constant) else None,
        )
        found += name in spelt
    return found + len(re.findall(rf":param {name}:", source))


def stands(operator: type[LakeJobOperator[Any]], known: Argument) -> int:
    spec = operator.action.spec_type
    fields = sum(named_in(ast.unparse(node), known.name) for node in _fields(spec) if _name(node) == known.name)
    use = int(bool(re.search(rf"\bspec\.{known.name}\b", inspect.getsource(operator.action))))
    return named_in(inspect.getsource(operator), known.author_name) + min(fields, 1) + use


def _fields(spec: type) -> list[ast.AnnAssign]:
    kinds = [kind for kind in spec.__mro__ if issubclass(kind, JobSpec)]
    bodies = [ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0] for kind in kinds]
    return [node for each in bodies for node in ast.iter_child_nodes(each) if isinstance(node, ast.AnnAssign)]


def _name(node: ast.AnnAssign) -> str:
    return node.target.id if isinstance(node.target, ast.Name) else ""


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_an_argument_stands_at_most_four_times(operator: type[LakeJobOperator[Any]]) -> None:
    known = [each for each in operator.action.spec_type.arguments() if each.name not in SHARED]
    found = {each.author_name: stands(operator, each) for each in known}
    assert {name: count for name, count in found.items() if count > MOST} == {}
    # Each is in the signature, in the docstring and in the spec.
    assert {name: count for name, count in found.items() if count < 3} == {}


def test_every_action_of_an_author_has_an_operator_and_a_place_in_an_application() -> None:
    actions = {operator.action.spec_type: operator.action for operator in OPERATORS}
    assert actions == lake_application._ACTIONS


def test_a_name_that_stands_once_more_is_counted() -> None:
    code = "class A:\n    def __init__(self, *, keys):\n        self.keys = keys\n"
    assert named_in(code, "keys") == 3
