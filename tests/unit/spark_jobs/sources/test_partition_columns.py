"""Names of folders as columns, where no type has to be made: without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.sources.files import FilesSource
from airflow_lake_provider.spark_jobs.sources.partition_columns import partition_columns

NO_SPARK: Any = None


def texts(*paths: str, columns: tuple[str, ...] = ("day", "region")) -> dict[str, list[str | None]]:
    listed = [InputFile(path, 1, "1") for path in paths]
    source = Files("in/*.csv", partition_columns=columns)
    return partition_columns(NO_SPARK, source, listed, None).texts


def test_each_file_has_the_values_of_its_own_folders_in_any_order_and_case() -> None:
    paths = ["s3a://in/day=2026-01-01/region=eu/a.csv", "file:/in/Region=%C3%BC%2F+%25/x=1/DAY=007/b.csv"]
    assert texts(*paths) == {"day": ["2026-01-01", "007"], "region": ["eu", "ü/+%"]}
    assert texts("in/a b=1/c=%zz/a.csv", columns=("A b", "c")) == {"A b": ["1"], "c": ["%zz"]}
    assert texts("in/day=__HIVE_DEFAULT_PARTITION__/a=b=c/d.csv", columns=("day", "a")) == {"day": [None], "a": ["b=c"]}
    assert texts("in/day=1/a.csv", columns=()) == {}


def test_a_source_notices_other_folders_and_not_their_order_or_case() -> None:
    shapes = [
        FilesSource(NO_SPARK, NO_SPARK, Files("in/*.csv", partition_columns=columns)).shape
        for columns in ((), ("day",), ("day", "region"), ("Region", "DAY"))
    ]
    assert shapes[0].keys() == {"format"}
    assert shapes[2] == shapes[3]
    assert len({shape.get("partition_columns") for shape in shapes[:3]}) == 3


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "in/day=1/a.csv",
            r"a\.csv is in 0 folders of the name region=\.\.\.",
        ),
        ("in/day=1/day=2/region=eu/a.csv", r"a\.csv is in 2 folders of the name day="),
        ("in/day=/region=eu/a.csv", r"a\.csv is in a folder without a value of the name day="),
        ("in/day=%ff/region=eu/a.csv", r"the folder 'day=%ff' is percent-encoded"),
        # The file's own name is no folder.
        ("in/day=1/region=eu", r"is in 0 folders of the name region="),
    ],
)
def test_a_file_outside_of_such_a_folder_or_inside_of_two_is_refused_by_name(path: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        texts("in/day=1/region=eu/sound.csv", path)
