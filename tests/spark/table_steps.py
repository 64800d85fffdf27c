"""Steps of a table's life, drawn at random; each predicate and value in SQL and beside it in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.merge_model import Row, rows

PREDICATES: dict[str, Callable[[Row], bool]] = {
    "id = 1": lambda row: row["id"] == 1,
    "id IN (0, 2, 9)": lambda row: row["id"] in (0, 2, 9),
    "n > 1": lambda row: row["n"] is not None and row["n"] > 1,
    "n IS NULL OR a = 'x'": lambda row: row["n"] is None or row["a"] == "x",
    "NOT (a = 'x')": lambda row: row["a"] is not None and row["a"] != "x",
    "at <= 2 AND f = true": lambda row: row["at"] is not None and row["at"] <= 2 and row["f"] is True,
}
# Column, expression, and its value for a row.
ASSIGNMENTS: dict[tuple[str, str], Callable[[Row], Any]] = {
    ("n", "n + 10"): lambda row: None if row["n"] is None else row["n"] + 10,
    ("n", "NULL"): lambda row: None,
    ("a", "'z'"): lambda row: "z",
    ("a", "concat(a, '!')"): lambda row: None if row["a"] is None else row["a"] + "!",
    ("at", "at + 1"): lambda row: None if row["at"] is None else row["at"] + 1,
}


@dataclass(frozen=True)
class Upsert:
    """A batch.

    :param keeps: without the column ``n``, which keeps its old values.
    :param meanwhile: steps that land between the staging of the batch and its commit.
    """

    batch: list[Row]
    strategy: UpsertStrategy = UpsertStrategy.POSITIONS
    keeps: bool = False
    meanwhile: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Delete:
    """Rows where a predicate is true; by another writer when foreign."""

    where: str
    foreign: bool = False


@dataclass(frozen=True)
class DeleteKeys:
    """Rows of listed keys."""

    keys: list[int]


@dataclass(frozen=True)
class Update:
    """One column of the rows where a predicate is true."""

    assignment: tuple[str, str]
    where: str
    foreign: bool = False


@dataclass(frozen=True)
class ForeignAppend:
    """Rows of another writer, of those keys that the table has not got."""

    keys: list[int]


@dataclass(frozen=True)
class Compact:
    """Our compaction."""

    level: CompactionLevel


@dataclass(frozen=True)
class Expire:
    """Our expiry of all snapshots but the newest."""

    retain_last: int


@dataclass(frozen=True)
class Repeat:
    """The last commit of ours by the same run again."""


@dataclass(frozen=True)
class Alter:
    """A change of the table by its owner."""

    change: str


Step = Upsert | Delete | DeleteKeys | Update | ForeignAppend | Compact | Expire | Repeat | Alter

UPGRADE = "SET TBLPROPERTIES ('format-version'='3')"
REPARTITION = "ADD PARTITION FIELD bucket(3, n)"
ids = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)
strategies = st.sampled_from([UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE])
where = st.sampled_from(sorted(PREDICATES))
# Iceberg 1.12 deletes a whole file by its statistics where Spark is asked for NOT (a = 'x') and all of a is NULL.
where_of_others = st.sampled_from(sorted(PREDICATES.keys() - {"NOT (a = 'x')"}))
assignments = st.sampled_from(sorted(ASSIGNMENTS))
REPEAT: st.SearchStrategy[Step] = st.just(Repeat())
between: list[st.SearchStrategy[Step]] = [
    st.builds(Update, assignments, where),
    st.builds(Compact, st.sampled_from([CompactionLevel.MAJOR, CompactionLevel.MINOR])),
    st.builds(Expire, st.integers(1, 2)),
    st.builds(Delete, where),
    REPEAT,
    st.builds(DeleteKeys, ids),
    st.builds(ForeignAppend, ids),
    st.builds(Alter, st.sampled_from([UPGRADE, REPARTITION])),
    st.builds(Delete, where_of_others, st.just(True)),
    st.builds(Update, assignments, where, st.just(True)),
]
# A repetition would find the files of the batch that waits.
others = [kind for kind in between if kind is not REPEAT]
meanwhile: st.SearchStrategy[list[Step]] = st.one_of(st.just([]), st.lists(st.one_of(others), max_size=2))
upserts = st.builds(Upsert, st.lists(rows, min_size=1, max_size=8), strategies, st.booleans(), meanwhile)


@st.composite
def lives(draw: st.DrawFn) -> list[Step]:
    """Some of the kinds of steps in any order, and upserts before, between and after them."""
    kinds = draw(st.permutations(between))
    life: list[Step] = []
    # Kinds are not drawn one by one: of few examples most would lack a compaction, say.
    for kind in kinds[: draw(st.integers(3, len(between)))]:
        if draw(st.booleans()):
            life.append(draw(upserts))
        life.append(draw(kind))
    return [*life, draw(upserts)]
