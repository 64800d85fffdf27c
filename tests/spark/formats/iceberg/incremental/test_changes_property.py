"""Whatever happened to a table: its net changes turn the rows of one snapshot into those of another."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.formats.iceberg.incremental.changes_history import CATALOG, ChangesHistory

IDS = st.integers(0, 7)
VALUES = st.sampled_from("abc")
Rows = dict[int, str]

COMMANDS = st.one_of(
    st.tuples(st.just("insert"), st.dictionaries(IDS, VALUES, min_size=1, max_size=3)),
    st.tuples(st.just("upsert"), st.dictionaries(IDS, VALUES, min_size=1, max_size=3)),
    st.tuples(st.just("delete"), st.sets(IDS, min_size=1, max_size=3)),
    st.tuples(st.just("rekey"), st.tuples(IDS, IDS)),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("rollback"), st.integers(0, 5)),
)


@dataclass
class Model:
    """The table as plain Python: for each snapshot, which rows there were and which commit wrote each last."""

    rows: dict[int, tuple[str, int]] = field(default_factory=dict)
    snapshots: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)
    commits: int = 0

    def write(self, rows: Rows) -> None:
        self.commits += 1
        self.rows = {**self.rows, **{key: (value, self.commits) for key, value in rows.items()}}

    def drop(self, keys: set[int]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}


def statement(kind: str, argument: object, model: Model) -> str | None:
    """Apply a command to the model and return the SQL that does it to the table; None when it has no effect."""
    if kind in ("insert", "upsert"):
        assert isinstance(argument, dict)
        rows = {k: v for k, v in argument.items() if kind == "upsert" or k not in model.rows}
        model.write(rows)
        values = ", ".join(f"({key}L, '{value}')" for key, value in rows.items())
        source = f"SELECT * FROM VALUES {values} AS s(id, v)"
        if kind == "insert":
            return f"INSERT INTO {{t}} {source}" if rows else None
        return (
            f"MERGE INTO {{t}} t USING ({source}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    if kind == "delete":
        assert isinstance(argument, set)
        model.drop(argument)
        return f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, argument))})"
    if kind == "rekey":
        return rekey(argument, model)
    assert kind == "compact"
    return f"CALL {CATALOG}.system.rewrite_data_files(table => '{{t}}', options => map('rewrite-all', 'true'))"


def rekey(argument: object, model: Model) -> str | None:
    assert isinstance(argument, tuple)
    old, new = argument
    if old not in model.rows or new in model.rows:
        return None
    value, _ = model.rows[old]
    model.drop({old})
    model.write({new: value})
    return f"UPDATE {{t}} SET id = {new} WHERE id = {old}"


def roll_back(history: ChangesHistory, model: Model, position: int) -> None:
    snapshot = list(model.snapshots)[position % len(model.snapshots)]
    lineage = {str(ancestor.id) for ancestor in history.handle().ancestors()}
    if snapshot in lineage:
        history.run(f"CALL {CATALOG}.system.rollback_to_snapshot('{{t}}', {snapshot})")
        model.rows = model.snapshots[snapshot]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=st.lists(COMMANDS, min_size=3, max_size=7), data=st.data())
def test_net_changes_turn_the_rows_of_any_snapshot_into_those_of_any_other(
    spark: SparkSession, commands: list[tuple[str, object]], data: st.DataObject
) -> None:
    history, model = ChangesHistory(spark), Model()
    model.write({0: "a", 1: "b", 2: "c"})
    model.snapshots[history.insert({0: "a", 1: "b", 2: "c"})] = model.rows
    for kind, argument in commands:
        if kind == "rollback":
            assert isinstance(argument, int)
            roll_back(history, model, argument)
        elif sql := statement(kind, argument, model):
            model.snapshots[history.run(sql)] = model.rows
    start, end = (data.draw(st.sampled_from(list(model.snapshots))) for _ in range(2))

    changes = history.changes(start, end)

    before, after = model.snapshots[start], model.snapshots[end]
    assert set(changes.values()) <= {1}
    changed = {key: value for kind, key, value in changes if kind == "upsert"}
    gone = {key: value for kind, key, value in changes if kind == "delete"}
    assert len(changed) + len(gone) == len(changes)
    assert gone == {key: value for key, (value, _) in before.items() if key not in after}
    assert changed == {key: value for key, (value, commit) in after.items() if before.get(key) != (value, commit)}
