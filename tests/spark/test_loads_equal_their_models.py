"""Random lives of tables that appends, overwrites, whole tables and histories fill, compared with plain Python."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.soak.loads import LIVES
from tests.spark.load_life import LoadLife

pytestmark = pytest.mark.in_every_part

# A batch of rows takes a third of the time of one that is compared by key.
BATCHES = {"append": 5, "overwrite": 6}
EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "2"))


# Without shrinking: it would take minutes. `scripts/soak loads --seed N --rounds 1` plays a seed again.
@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 10**9))
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.load_name)
def test_a_table_equals_its_model_whatever_arrives_and_however_drivers_end(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, life: type[LoadLife[object]], seed: int
) -> None:
    life.drawn(spark, tmp_path_factory.mktemp("inbox"), seed).play(BATCHES.get(life.load_name, 3))
