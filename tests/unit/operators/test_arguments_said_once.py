"""An argument stands at most four times on its way, or is listed: signature, docstring, field of the spec, one use.

A use is a function of the spec, or of the worker's action, that reads the argument; a function that reads it twice is
one. Not counted are the functions behind: plans of a worker and actions of a driver do the argument's work, and take
it from the spec. How many files they are, ``test_spec_carriage.py`` bounds. Texts of messages are not counted either.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

import pytest

from airflow_lake_provider.contracts.specs.job import Argument, JobSpec
from airflow_lake_provider.operators import lake_application
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.orphan_files import LakeRemoveOrphanFilesOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rewrite_manifests import LakeRewriteManifestsOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.row_expiry import LakeRowExpiryOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.statistics import LakeStatisticsOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from airflow_lake_provider.operators.worker_action import MetadataChangeAction, PlannedAction

MOST = 4
OPERATORS: list[type[LakeJobOperator[Any]]] = [
    LakeUpsertOperator,
    LakeAppendOperator,
    LakeOverwritePartitionsOperator,
    LakeIncrementalOperator,
    LakeDeleteRowsOperator,
    LakeUpdateRowsOperator,
    LakeCompactionOperator,
    LakeRewriteManifestsOperator,
    LakeRowExpiryOperator,
    LakeStatisticsOperator,
    LakeSnapshotExpiryOperator,
    LakeRemoveOrphanFilesOperator,
    LakeRollbackOperator,
    LakePublishBranchOperator,
    LakeCreateTagOperator,
    LakeDropTagOperator,
    LakeTableUpgradeOperator,
]
# An argument on which several rules depend stands once more for each of them: each rule asks it something else. The
# list may only shrink. What gives an engine or a source an answer of its own has no place here.
MORE: dict[type[LakeJobOperator[Any]], dict[str, int]] = {
    LakeUpsertOperator: {"source": 7, "schema_contract": 5, "merge_engine": 5},
    LakeAppendOperator: {"source": 8, "schema_contract": 5, "deduplicate_against": 5},
    LakeOverwritePartitionsOperator: {"source": 8, "schema_contract": 5, "where": 5, "on_repeat": 5},
    LakeIncrementalOperator: {"source": 7, "consumer": 6, "transform": 6, "query": 5},
    LakeDeleteRowsOperator: {"keys_from": 5, "keys": 5},
    LakeRemoveOrphanFilesOperator: {"mode": 5},
}
# Of every operator, in LakeJobOperator; every message begins with it.
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


def readers(part: type, owner: str, name: str) -> list[str]:
    """Return the functions of a class, and of its bases for some actions, that read an attribute of an object.

    :param owner: name of that object: ``self`` or ``spec``.
    """
    shared = {*JobSpec.__mro__, *MetadataChangeAction.__mro__, *PlannedAction.__mro__}
    kinds = [kind for kind in part.__mro__ if kind not in shared]
    return [
        function.name
        for kind in kinds
        for function in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind))))
        if isinstance(function, ast.FunctionDef) and any(_reads(node, owner, name) for node in ast.walk(function))
    ]


def _reads(node: ast.AST, owner: str, name: str) -> bool:
    if not (isinstance(node, ast.Attribute) and node.attr == name):
        return False
    return isinstance(node.value, ast.Name) and node.value.id == owner


def stands(operator: type[LakeJobOperator[Any]], argument: Argument) -> int:
    """Count the places of an argument: those of the operator, fields of the spec, functions of spec and action."""
    action, spec = operator.action, operator.action.spec_type
    # A field is one place, though its reader or its stand-in may be spelt like it.
    fields = sum(_name(node) == argument.name for node in _fields(spec))
    reading = [*readers(spec, "self", argument.name), *readers(action, "spec", argument.name)]
    return named_in(inspect.getsource(operator), argument.author_name) + fields + len(reading)


def _fields(spec: type) -> list[ast.AnnAssign]:
    kinds = [kind for kind in spec.__mro__ if issubclass(kind, JobSpec)]
    bodies = [ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0] for kind in kinds]
    return [node for each in bodies for node in ast.iter_child_nodes(each) if isinstance(node, ast.AnnAssign)]


def _name(node: ast.AnnAssign) -> str:
    return node.target.id if isinstance(node.target, ast.Name) else ""


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_an_argument_stands_at_most_four_times_or_as_often_as_is_listed(operator: type[LakeJobOperator[Any]]) -> None:
    counted = [each for each in operator.action.spec_type.arguments() if each.name not in SHARED]
    count_of = {each.author_name: stands(operator, each) for each in counted}
    assert {name: count for name, count in count_of.items() if count > MOST} == MORE.get(operator, {})
    # Each is in the signature, in the docstring and in the spec.
    assert {name: count for name, count in count_of.items() if count < 3} == {}


def test_every_action_of_an_author_has_an_operator_and_a_place_in_an_application() -> None:
    actions = {operator.action.spec_type: operator.action for operator in OPERATORS}
    assert actions == lake_application._ACTIONS


class Asked:
    """A class that asks an argument in two functions, in one of them twice."""

    keys: tuple[str, ...] = ()

    def twice(self) -> bool:
        return bool(self.keys) or self.keys is None

    @property
    def once(self) -> list[str]:
        return list(self.keys)

    def never(self, other: Asked) -> bool:
        return bool(other.keys)


def test_each_function_that_reads_an_argument_is_counted_once() -> None:
    assert readers(Asked, "self", "keys") == ["twice", "once"]
    assert readers(Asked, "other", "keys") == ["never"]


def test_a_name_that_stands_once_more_is_counted() -> None:
    code = "class A:\n    def __init__(self, *, keys):\n        self.keys = keys\n"
    assert named_in(code, "keys") == 3
