"""The operator that replays dead letters is the load of its target, with the letters as its source."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.author.dead_letter import RepairedLetters
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.operators.dead_letter_replay import LakeDeadLetterReplayOperator
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator


def replay(**given: Any) -> LakeDeadLetterReplayOperator:
    return LakeDeadLetterReplayOperator(task_id="replay", **given)


def test_letters_are_appended_or_upserted_by_keys_under_the_name_of_their_table() -> None:
    (spec,) = replay(target="shop.events", load={"schema_contract": {"missing_columns": "null"}}).tasks
    assert isinstance(spec, AppendSpec)
    assert (spec.table, spec.schema_contract) == ("shop.events", SchemaContract(missing_columns="null"))
    assert spec.source == RepairedLetters("lake_ops.dead_letters", name="lake_ops.dead_letters")
    (spec,) = replay(target="{{ params.table }}", letters="ops.letters", keys=["id"], load={"order_by": ["n"]}).tasks
    assert isinstance(spec, UpsertSpec)
    assert (spec.table, spec.keys, spec.order_by) == ("{{ params.table }}", ("id",), ("n",))
    assert spec.source == RepairedLetters("ops.letters", name="ops.letters")
    with DAG("d", schedule=None):
        LakeDeadLetterReplayOperator.partial(task_id="mapped").expand(target=["a.b", "a.c"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"load": {"source": "in/*.json"}}, "load has .'source'.; give target"),
        ({"load": {"colour": 1}}, r"^the replay has no \['colour'\]; it takes"),
        ({"keys": "id"}, "^the replay: keys must be a list of column names"),
        ({"load": "keys"}, "load must map the name of an argument to its value, got 'keys'"),
        ({"load": [["complete", True]]}, "load must map the name of an argument"),
        ({"letters": "letters"}, "'letters'"),
        ({"load": {"complete": True}, "keys": ["id"]}, "must not replace a table"),
    ],
)
def test_what_is_no_load_of_letters_is_refused_while_the_dag_is_parsed(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words) as refused:
        replay(target="shop.events", **given)
    assert isinstance(refused.value, (AirflowFailException, ValueError))


def test_letters_that_do_not_fit_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeApplicationOperator, "result", lambda *_: [{"outcome": "failed"}])
    context: Any = {}
    failed: Any = [SimpleNamespace(error=BadInputError("in letter 1"))]
    with pytest.raises(BadInputError, match="in letter 1"):
        replay(target="a.b").result(failed, context)
    fine: Any = [SimpleNamespace(error=None)]
    assert replay(target="a.b").result(fine, context) == [{"outcome": "failed"}]
