"""Values of Protobuf as rows of Arrow, beside ``MessageToDict`` of Google's library and Arrow's own lists of rows.

The peer is what a function of an author's does in the fewest lines. It does not look for what is not exact. CPU
seconds of one process; a ratio is the peer's over ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median

import pyarrow as pa
from google.protobuf.json_format import MessageToDict

from airflow_lake_provider.spark_jobs.sources.kafka.protobuf_messages import MessageRows
from tests.protobuf_shop import kind_of, shop

MESSAGES, REPEATS = 100_000, 5
# As Spark hands them to a function.
AT_ONCE = 10_000
ORDER = kind_of("shop.Order")


def values() -> pa.Array:
    """Return orders with three lines each."""
    orders = (
        ORDER(
            id=number,
            status=number % 2,
            at={"seconds": 1_700_000_000 + number},
            prices={"eur": number % 1_000},
            note=f"order {number}",
            lines=[{"sku": f"{number}-{line}"} for line in range(3)],
        )
        for number in range(MESSAGES)
    )
    return pa.array([order.SerializeToString() for order in orders])


def dictionaries(batch: pa.Array) -> list[object]:
    """Return messages as Google's library makes dictionaries of them."""
    return [MessageToDict(ORDER.FromString(value)) for value in batch.to_pylist()]


def main() -> None:
    """Print microseconds of CPU a message, and their ratio."""
    given = values()
    batches = [given.slice(start, AT_ONCE) for start in range(0, MESSAGES, AT_ONCE)]
    sides: dict[str, Callable[[pa.Array], object]] = {
        "ours": MessageRows(shop(), "shop.Order").rows,
        "MessageToDict": dictionaries,
    }
    micros: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(REPEATS):
        for name, read in sides.items():
            start = time.process_time()
            for batch in batches:
                read(batch)
            micros[name].append((time.process_time() - start) / MESSAGES * 1e6)
    middle = {name: round(median(times), 1) for name, times in micros.items()}
    print(json.dumps({"micros": middle, "ratio": round(middle["MessageToDict"] / middle["ours"], 2)}))


if __name__ == "__main__":
    main()
