"""Find the Spark that this worker submits with; garbage collector and compilers of a driver on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_lake_provider.contracts.errors import UnsupportedError

# The official hook's. Its module takes its time to be imported.
_DEFAULT_BINARY = "spark-submit"
_CORE_JAR = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<spark>\d+\.\d+)\b.*\.jar")


@dataclass(frozen=True, kw_only=True)
class SparkRelease:
    """The Spark that a job runs on.

    :param spark: ``3.5``; ``scala``: ``2.12``.
    """

    spark: str
    scala: str

    @property
    def is_old(self) -> bool:
        """Tell whether it is older than Spark 4."""
        return self.spark.startswith("3.")

    @classmethod
    def of_home(cls, home: Path) -> SparkRelease | None:
        """Read the names of the jars in a SPARK_HOME; None where they do not tell."""
        matches = [named for jar in home.glob("jars/spark-core_*.jar") if (named := _CORE_JAR.fullmatch(jar.name))]
        return cls(spark=matches[0]["spark"], scala=matches[0]["scala"]) if len(matches) == 1 else None


def refuse_mixed_installation() -> None:
    """Refuse pyspark and pyspark-client of two versions: both install into ``pyspark/`` and overwrite each other.

    :raises UnsupportedError: when both are installed and differ.
    """
    versions = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    if len(set(versions.values())) > 1:
        raise UnsupportedError(
            f"pyspark {versions['pyspark']} and pyspark-client {versions['pyspark-client']} share one folder and have "
            "overwritten parts of each other; reinstall both with one version"
        )


def launch_environment(
    master: str, binary: str | None = None, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return what the process ``spark-submit`` needs beside the worker's own environment.

    :param master: Spark master URL.
    :param binary: the ``spark-submit`` that is called; None for the bundled one. Another has a Spark of its own.
    :param environment: the worker's; what is set there wins.
    """
    wanted = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    if master.startswith("local"):
        wanted["PYSPARK_PYTHON"] = sys.executable
    home = bundled_spark_home()
    if home is not None and binary in (None, str(home / "bin" / "spark-submit")):
        wanted["SPARK_HOME"] = str(home)
    return {name: value for name, value in wanted.items() if name not in environment}


# Of workers whose other tasks use Spark Connect: spark-submit takes no remote beside a master.
_CONNECT = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE", "SPARK_CONNECT_MODE_ENABLED")
# What asks for a session of Spark Connect, by a value where others are no such question.
_ASKS_FOR_CONNECT = {
    **dict.fromkeys(("spark.remote", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"), ""),
    **dict.fromkeys(("spark.api.mode", "SPARK_API_MODE"), "connect"),
    "SPARK_CONNECT_MODE": "1",
}


def asking_for_connect(given: Mapping[str, str]) -> str | None:
    """Return the setting of Spark, or the variable, that asks for a session of Spark Connect; None without one."""
    asking = (name for name, value in given.items() if _ASKS_FOR_CONNECT.get(name) in ("", value.strip().lower()))
    return next(asking, None)


@contextmanager
def without_spark_connect() -> Iterator[None]:
    """Take away the variables by which PySpark opens a session of Spark Connect, as long as an application starts."""
    taken = {name: os.environ.pop(name) for name in _CONNECT if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


def spark_submit_binary(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the absolute path of the bundled ``spark-submit``; None when SPARK_HOME or the PATH shall decide."""
    home = bundled_spark_home()
    if home is None or "SPARK_HOME" in environment:
        return None
    return str(home / "bin" / "spark-submit")


def chosen_binary(binary: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the ``spark-submit`` that somebody chose; None where :func:`spark_submit_binary` or SPARK_HOME decides.

    Airflow's form stores the official default with each connection. It is a choice where it calls another Spark.

    :param binary: extra ``spark-binary`` of a connection, or argument of the official hook.
    """
    if binary != _DEFAULT_BINARY:
        return binary or None
    path = shutil.which(binary, path=environment.get("PATH"))
    # The script asks SPARK_HOME first, and so does a submission without a choice.
    if path is None or "SPARK_HOME" in environment:
        return None
    # pip puts a script of its own beside Python, which is in no folder of a Spark.
    beside_python = Path(path).parent.resolve() == Path(sys.executable).parent.resolve()
    is_of_pip = beside_python and spark_home(binary, environment) is None
    bundled = bundled_spark_home()
    is_bundled = bundled is not None and Path(path).resolve() == (bundled / "bin" / "spark-submit").resolve()
    return None if is_of_pip or is_bundled else binary


def spark_home(binary: str | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the Spark that a submission uses; None where it cannot be told.

    :param binary: the ``spark-submit`` that is called; None for what the PATH has.
    """
    if "SPARK_HOME" in environment:
        return Path(environment["SPARK_HOME"])
    path = shutil.which(binary or "spark-submit", path=environment.get("PATH"))
    home = Path(path).resolve().parent.parent if path else None
    return home if home is not None and (home / "jars").is_dir() else None


def settings_folder(home: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of ``spark-defaults.conf`` and ``spark-env.sh``.

    :param home: of the Spark that a submission uses.
    """
    return Path(environment.get("SPARK_CONF_DIR") or home / "conf")


def bundled_spark_home() -> Path | None:
    """Return the folder of an installed pyspark; None when there is only the client, which cannot submit."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    return home if (home / "bin" / "spark-submit").exists() else None


# G1, the JVM's default, marks beside the tasks on their cores, and gives memory back that the next batch asks for
# again: see docs/decisions/0026-parallel-collector-on-one-machine.md.
PARALLEL = "-XX:+UseParallelGC"
# Two collectors are an error of the JVM. What may name one in a file that is not read here counts as one.
_OPTIONS_ELSEWHERE = r"-XX:Flags\b|-XX:VMOptionsFile\b|(?:^|\s)@"
_NAMES_COLLECTOR = re.compile(r"-XX:[+-]Use\w*GC\b|-Xgcpolicy|-Xgc:|" + _OPTIONS_ELSEWHERE)
# Of a short job, the JVM's second compiler takes more than it spares: see docs/decisions/0045-short-jobs-one-tier.md.
# Alone the first one has a code cache of 48 MB, which Spark may fill.
ONE_TIER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
_NAMES_COMPILERS = re.compile(r"Tiered|CodeCache|CompilationMode|JVMCI|-Xint\b|-Xcomp\b|" + _OPTIONS_ELSEWHERE)
_OF_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


def collector_option(theirs: Iterable[str], environment: Mapping[str, str], conf: Path) -> str:
    """Return the JVM's option; empty where others choose the collector, or may choose it.

    :param theirs: JVM options of the author, the site and the deployment.
    :param environment: of ``spark-submit``, where Java itself looks for options.
    :param conf: Spark's folder of settings, whose ``spark-env.sh`` may add to the options.
    """
    return "" if _may_choose(_NAMES_COLLECTOR.search, theirs, environment, conf) else PARALLEL


def compiler_option(theirs: Iterable[str], environment: Mapping[str, str], conf: Path) -> str:
    """Return the JVM's options for a short job; empty where others choose its compilers, or may choose them.

    :param theirs: as of :func:`collector_option`.
    :param environment: likewise.
    :param conf: likewise.
    """
    return "" if _may_choose(_NAMES_COMPILERS.search, theirs, environment, conf) else ONE_TIER


def _may_choose(
    names_it: Callable[[str], object], theirs: Iterable[str], environment: Mapping[str, str], conf: Path
) -> bool:
    texts = [*theirs, *(environment.get(name, "") for name in _OF_JAVA)]
    return (conf / "spark-env.sh").exists() or any(map(names_it, texts))
