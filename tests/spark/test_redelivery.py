"""A twentieth of the deliveries of ``scripts/soak redelivery``, with a fixed seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.shop_oracle import oracle
from tests.soak.redelivery import redeliver
from tests.soak.shop_tables import SMALL


@pytest.mark.in_every_part
def test_a_stream_delivered_again_and_late_ends_as_the_server_did(spark: SparkSession, tmp_path: Path) -> None:
    # By key most can go wrong, so it comes first and gets one of the deliveries that are left over.
    ways = ("key", "records", "names", "stream")
    print(redeliver(spark, tmp_path, seed=12, deliveries=10, tables=(SMALL,), ways=ways))


def test_only_the_default_of_an_added_column_may_be_missing() -> None:
    rows = list(oracle("orders", SMALL.folder).values())
    web = next(row for row in rows if row["channel"] == "web")
    app = next(row for row in rows if row["channel"] == "app")
    SMALL.refuse_other_rows([*(row for row in rows if row is not web), {**web, "channel": None}], "untold")
    others = [row for row in rows if row is not app]
    for wrong in ({**app, "channel": None}, {**app, "paid": None}, {**app, "channel": "web"}):
        with pytest.raises(AssertionError, match="1 rows differ"):
            SMALL.refuse_other_rows([*others, wrong], "wrong")
    with pytest.raises(AssertionError, match="1 rows differ"):
        SMALL.refuse_other_rows(others, "lost")
    with pytest.raises(AssertionError, match="have the key of another"):
        SMALL.refuse_other_rows([*rows, app], "twice")
