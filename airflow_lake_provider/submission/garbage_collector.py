"""Garbage collector of a driver whose tasks run in its own JVM, on one machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# G1, the JVM's default, marks beside the tasks on their cores, and gives memory back that the next batch asks for
# again: see docs/decisions/0026-parallel-collector-on-one-machine.md.
PARALLEL = "-XX:+UseParallelGC"
# Two collectors are an error of the JVM. What may name one in a file that is not read here counts as one.
_NAMES_ONE = re.compile(r"-XX:[+-]Use\w*GC\b|-XX:Flags\b|-XX:VMOptionsFile\b|(?:^|\s)@|-Xgcpolicy|-Xgc:")
_OF_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


def collector_option(theirs: Iterable[str], environment: Mapping[str, str], conf: Path) -> str:
    """Return the JVM's option; empty where others choose the collector, or may choose it.

    :param theirs: JVM options of the author, the site and the deployment.
    :param environment: of ``spark-submit``, where Java itself looks for options.
    :param conf: Spark's folder of settings, whose ``spark-env.sh`` may add to the options.
    """
    texts = [*theirs, *(environment.get(name, "") for name in _OF_JAVA)]
    is_chosen = (conf / "spark-env.sh").exists() or any(_NAMES_ONE.search(text) for text in texts)
    return "" if is_chosen else PARALLEL
