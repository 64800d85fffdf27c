"""Records of JSON and XML that have no field of the declared schema: each would become a row of NULL."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sources import spelled_fields
from airflow_lake_provider.spark_jobs.sources.spelled_fields import refuse_unlike_records

DECLARED = StructType([StructField("id", IntegerType()), StructField("name", StringType())])
WRAPPED = {"schema": {"type": "struct"}, "payload": {"id": 1, "name": "a"}}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([{"order": 1}, {"total": 2}], r"declares \['id', 'name'\], and the records have \['order', 'total'\]"),
        ([[{"order": 1}], "text", 7, None], r"have \['order'\]"),
        ([WRAPPED, {}], r"value\.converter\.schemas\.enable=false.*payload STRUCT<\.\.\.>"),
        ([{f"f{number}": 1 for number in range(9)}], r"'f4'\] and 4 others"),
    ],
)
def test_records_without_any_declared_field_are_refused_with_the_names_that_they_have(
    values: list[Any], says: str
) -> None:
    with pytest.raises(BadInputError, match=says):
        refuse_unlike_records(values, DECLARED, "topic orders")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [{}],
        [{"order": 1}, {"id": None}],
        [[{"order": 1}, {"name": "a"}]],
        [json.loads('{"schema": 1, "payload": {}, "id": 1}')],
    ],
)
def test_one_record_with_one_declared_field_shows_that_the_schema_is_theirs(values: list[Any]) -> None:
    refuse_unlike_records(values, DECLARED, "topic orders")


def test_a_declared_payload_and_a_schema_without_fields_are_taken() -> None:
    payload = StructType([StructField("payload", DECLARED)])
    refuse_unlike_records([WRAPPED], payload, "topic orders")
    # All columns are of the key.
    refuse_unlike_records([WRAPPED], StructType(), "topic orders")


def test_elements_may_be_taken_by_the_wildcard_column_or_be_left_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(column: str, element: dict[str, Any]) -> None:
        monkeypatch.setattr(spelled_fields, "_elements", lambda *_: [element])
        # Spark's parser of it takes a session.
        monkeypatch.setattr(spelled_fields, "parse_ddl", lambda _: StructType([StructField(column, StringType())]))
        source = Files("in", format="xml", schema=f"{column} STRING", options={"rowTag": "row"})
        spelled_fields.refuse_spelled_fields(MagicMock(), source, ["a.xml"], {"columnNameOfCorruptRecord": UNPARSABLE})

    with pytest.raises(BadInputError, match=r"the records have \['order'\]"):
        refuse("id", {"order": 1})
    refuse("xs_any", {"order": 1})
    # What is no XML has its own error, with its place.
    refuse("id", {UNPARSABLE: "<row>"})


def test_a_query_may_leave_out_records_of_other_kinds_but_not_what_wraps_all_of_them() -> None:
    refuse_unlike_records([{"other": 1}], DECLARED, "topic orders", may_be_left_out=True)
    with pytest.raises(BadInputError, match=r"value\.converter\.schemas\.enable=false"):
        refuse_unlike_records([WRAPPED], DECLARED, "topic orders", may_be_left_out=True)
