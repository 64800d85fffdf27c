"""Let splits fail that Python workers rewrite: an old file is gone, the disk is full, a new file is broken, a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_groups import ArrowRewrite

WAYS = ("old file gone", "disk full", "new footer unreadable", "killed")


@contextmanager
def failing_splits(first: int, last: int, way: str, calls: Counter[str], raised: list[str]) -> Iterator[None]:
    """Count the splits of jobs, and let chosen ones fail in their workers.

    :param first: number of the first split that fails, counted from 1.
    :param calls: gets the count, as ``split``.
    :param raised: gets where new files of failing splits begin.
    """
    run = ArrowRewrite._run

    def counted(self: ArrowRewrite, splits: Sequence[Any], opened: Any) -> Any:
        begun = calls["split"]
        calls["split"] += len(splits)
        doomed = {split.stem for number, split in enumerate(splits, begun + 1) if first <= number <= last}
        raised.extend(sorted(doomed))
        with (
            mock.patch.object(rewrite_groups, "MOST_BYTES_IN_DRIVER", 0),
            mock.patch.object(rewrite_groups, "rewrite_splits", _rewritten(doomed, way)),
        ):
            return run(self, splits, opened)

    with mock.patch.object(ArrowRewrite, "_run", counted):
        yield


def _rewritten(doomed: set[str], way: str) -> Callable[[Any, Any], Iterator[Any]]:
    """Return what a worker does with splits; it is sent as a whole, since workers do not import tests."""

    def rewrite(splits: Any, files: Any) -> Iterator[Any]:
        import errno
        import os
        import signal
        from types import SimpleNamespace

        from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import rewrite_splits

        def failing(stem: str) -> Any:
            opened = []

            def place_of(location: str) -> Any:
                is_new = location.startswith(stem)
                opened.append(is_new)
                if way == "old file gone" and not is_new:
                    raise FileNotFoundError(errno.ENOENT, "No such file", location)
                # A new file is opened to be written, and once more for its footer.
                if is_new and opened.count(True) == (1 if way == "disk full" else 2):
                    if way == "killed":
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise OSError(errno.ENOSPC, "No space left on device", location)
                return files.place_of(location)

            return SimpleNamespace(place_of=place_of)

        for split in splits:
            yield from rewrite_splits([split], failing(split.stem) if split.stem in doomed else files)

    return rewrite
