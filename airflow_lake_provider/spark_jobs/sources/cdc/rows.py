"""The last event of each key to a typed row, with what is wrong with it beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from airflow_lake_provider.contracts.applied.position_column import POSITION_COLUMN
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, RESET
from airflow_lake_provider.spark_jobs.batch.key_ranges import ranges_column, read_ranges
from airflow_lake_provider.spark_jobs.batch.null_keys import refuse_null_event_keys
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import EventColumns
from airflow_lake_provider.spark_jobs.sources.cdc.events import is_delete

# Kinds of trouble a column can be in; each is an array of column names beside a row, of lost ones with what was sent.
_LOST, _UNFILLED, _ABSENT = "lost", "unfilled", "absent"
# Texts of a row by column. The parser of JSON makes NULL of no row, nor of a long text, nor of any column by its name.
_ROW = "_lake_texts"
_WHOLE = {"mode": "FAILFAST", "maxStringLen": str(2**31 - 1), "columnNameOfCorruptRecord": "_lake_corrupt"}
_LONGEST_TEXT = 60
# Whether only values that events left out change in a row of the table.
PATCH = "_lake_patch"
CARRIED = (POSITION_COLUMN, PATCH)


@dataclass(frozen=True, kw_only=True)
class RowBuilder:
    """Builds rows out of last events.

    :param columns: types of the result.
    :param keys: key columns, in the order of the struct ``key``.
    :param hole_columns: columns with unavailable values; ``s0`` is the value that the batch has of the first of them,
        ``t0`` the one that the table has, and so on.
    """

    columns: EventColumns
    keys: Sequence[str]
    hole_columns: Sequence[str]

    @property
    def types(self) -> dict[str, DataType]:
        """Column -> type, in the order of the result."""
        return self.columns.types

    def checked_rows(self, last: DataFrame) -> DataFrame:
        """Return ``row``, ``deleted``, ``no_key`` and an array per kind of trouble.

        Also ``_lake_reset``, where ``last`` has it.

        :param last: one event per key; ``key``, ``op``, ``after``, ``holes``, ``types``, and ``s0``, ``t0``, ...
        """
        # In steps, each naming what the next uses more than once: written as one, the expressions multiply.
        texts = last.withColumn(_ROW, self._texts_by_name())
        sent = texts.withColumns({f"{part}{i}": c for i, n in self._numbered() for part, c in self._sent(n).items()})
        typed = sent.withColumns({f"value{i}": self._value(i, name) for i, name in self._numbered()})
        deleted = is_delete()
        reset = [(sf.col(RESET) & ~deleted).alias(RESET)] if RESET in last.columns else []
        carried = [sf.col(name) for name in CARRIED if name in last.columns]
        return typed.select(
            sf.struct(*(self._filled(i, name).alias(name) for i, name in self._numbered())).alias("row"),
            deleted.alias("deleted"),
            *(*reset, *carried),
            reduce(or_, (sf.col(f"key.k{i}").isNull() for i in range(len(self.keys)))).alias("no_key"),
            self._where(self._is_lost, _name_and_text).alias(_LOST),
            self._where(self._unfilled, lambda _, name: sf.lit(name)).alias(_UNFILLED),
            sf.when(deleted, sf.array().cast("ARRAY<STRING>")).otherwise(self._absent()).alias(_ABSENT),
        )

    def batch_of(self, checked: DataFrame, events: int, hint: str = "") -> ChangeBatch:
        """Count and check in one job, which fills the cache of ``checked``.

        :param events: change events read.
        :param hint: what unavailable values that nothing fills may wait for.
        :raises BadInputError: keys or values that do not convert, unavailable values that nothing fills.
        """
        counts = checked.agg(
            sf.count(sf.lit(1)).alias("keys"),
            sf.count_if("deleted").alias("deletes"),
            sf.count_if("no_key").alias("no_key"),
            (sf.count_if(PATCH) if PATCH in checked.columns else sf.lit(0)).alias("patches"),
            sf.struct(
                *(sf.count_if(sf.col("row")[name].isNull()).alias(f"k{i}") for i, name in enumerate(self.keys))
            ).alias("null_keys"),
            ranges_column([(sf.col("row")[name], self.types[name]) for name in self.keys]).alias("key_ranges"),
            # Not by column: planning some aggregates for each of a thousand columns takes longer than all the rest.
            *(sf.count_if(sf.size(kind) > 0).alias(kind) for kind in (_LOST, _UNFILLED, _ABSENT)),
        ).collect()[0]
        no_key = {name: count for name, count in zip(self.keys, counts["null_keys"], strict=True) if count}
        refuse_null_event_keys(counts["no_key"], no_key, self.types)
        if counts[_LOST]:
            self._refuse_lost(checked)
        if counts[_UNFILLED]:
            self._refuse_unfilled(checked, hint)
        carried = [name for name in (RESET, *CARRIED) if name in checked.columns]
        return ChangeBatch(
            changes=checked.select("row.*", sf.col("deleted").alias(DELETED), *carried),
            rows=events,
            keys=counts["keys"],
            upserts=counts["keys"] - counts["deletes"],
            deletes=counts["deletes"],
            patches=counts["patches"],
            key_ranges=read_ranges(self.keys, counts["key_ranges"]),
            reads_table=bool(self.hole_columns),
            absent=self._by_column(checked, _ABSENT) if counts[_ABSENT] else {},
            cached=(checked,),
        )

    def refuse_unfilled(self, checked: DataFrame, hint: str) -> None:
        """Refuse rows with values that nothing fills, as :meth:`batch_of` does.

        :raises BadInputError: naming the columns and the hint.
        """
        if not checked.filter(sf.size(_UNFILLED) > 0).isEmpty():
            self._refuse_unfilled(checked, hint)

    def sound_rows(self, checked: DataFrame) -> DataFrame:
        """Return the rows without trouble that are not deleted, as ``changes`` of a batch."""
        sound = sf.expr(f"NOT deleted AND NOT no_key AND size({_LOST}) = 0 AND size({_UNFILLED}) = 0")
        carried = [name for name in CARRIED if name in checked.columns]
        return checked.filter(sound).select("row.*", sf.lit(False).alias(DELETED), *carried)

    def _numbered(self) -> list[tuple[int, str]]:
        return list(enumerate(self.types))

    def _texts_by_name(self) -> Column:
        """Return the texts of ``after`` as a struct: a map is searched for each name, which takes columns squared."""
        struct = StructType([StructField(name, StringType()) for name in self.types])
        return sf.from_json(sf.to_json("after"), struct, _WHOLE)

    def _absent(self) -> Column:
        return sf.array_except(sf.array(*map(sf.lit, self.types)), sf.map_keys("after"))

    def _sent(self, name: str) -> dict[str, Column]:
        """Text of the value and hash of its types: of the event, or of the one it takes the value from."""
        text, types = sf.col(_ROW)[name], sf.col("types")
        if name not in self.hole_columns:
            return {"text": text, "schema": types}
        hole, last_known = sf.array_contains("holes", name), sf.col(f"s{self.hole_columns.index(name)}")
        return {
            "text": sf.when(hole, last_known["text"]).otherwise(text),
            "schema": sf.when(hole, last_known["types"]).otherwise(types),
        }

    def _value(self, number: int, name: str) -> Column:
        return self.columns.value(name, sf.col(f"text{number}"), sf.col(f"schema{number}"))

    def _filled(self, number: int, name: str) -> Column:
        if name in self.keys:
            return sf.col(f"key.k{self.keys.index(name)}")
        value = sf.col(f"value{number}")
        if name not in self.hole_columns:
            return value
        return sf.when(self._is_left(name), sf.col(f"t{self.hole_columns.index(name)}.value")).otherwise(value)

    def _unfilled(self, _: int, name: str) -> Column | None:
        if name not in self.hole_columns:
            return None
        return self._is_left(name) & sf.col(f"t{self.hole_columns.index(name)}").isNull()

    def _is_left(self, name: str) -> Column:
        """Tell whether the batch does not know the value, so that only the table can."""
        return sf.array_contains("holes", name) & sf.col(f"s{self.hole_columns.index(name)}").isNull()

    def _is_lost(self, number: int, name: str) -> Column:
        return self.columns.lost(name, sf.col(f"text{number}"), sf.col(f"value{number}"))

    def _where(self, is_so: Callable[[int, str], Column | None], described: Callable[[int, str], Column]) -> Column:
        """Return an array of what describes each column that is so."""
        conditions = [(described(i, name), is_so(i, name)) for i, name in self._numbered()]
        items = [sf.when(condition, description) for description, condition in conditions if condition is not None]
        return sf.array_compact(sf.array(*items)) if items else sf.array().cast("ARRAY<STRING>")

    def _by_column(self, checked: DataFrame, kind: str) -> dict[str, int]:
        """Return the number of rows with such trouble, by column."""
        named = checked.select(sf.explode(kind).alias("name"))
        counts = {row["name"]: row["count"] for row in named.groupBy("name").count().collect()}
        return {name: counts[name] for name in self.types if name in counts}

    def _refuse_lost(self, checked: DataFrame) -> None:
        lost = checked.select(sf.explode(_LOST).alias("column")).select("column.*")
        counted = lost.groupBy("name").agg(sf.count(sf.lit(1)), sf.max("text")).collect()
        counts = {name: (count, text) for name, count, text in counted}
        texts = {name: counts[name][1] for name in self.types if name in counts}
        examples = ", ".join(
            f"{counts[name][0]} of {name} as {self.types[name].simpleString()}, such as {text!r}"
            for name, text in texts.items()
        )
        raise BadInputError(f"values cannot be converted: {examples}. {self.columns.remedy(texts)}")

    def _refuse_unfilled(self, checked: DataFrame, hint: str) -> None:
        counts = ", ".join(f"{count} of {name}" for name, count in self._by_column(checked, _UNFILLED).items())
        raise BadInputError(
            f"values are not in the events, and neither earlier in the batch nor in the table: {counts}. "
            + (
                hint
                or "The batch does not follow what was applied before: apply the missing events first, or take a "
                "new snapshot"
            )
        )


def _name_and_text(number: int, name: str) -> Column:
    return sf.struct(sf.lit(name).alias("name"), sf.left(f"text{number}", sf.lit(_LONGEST_TEXT)).alias("text"))
