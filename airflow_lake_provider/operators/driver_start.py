"""A driver's jars, garbage collector and compilers, and an archive of classes from which it starts quicker."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.configuration import conf

from airflow_lake_provider.catalogs.spark_catalog_properties import SPARK_RUNTIME, runtime_for
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError
from airflow_lake_provider.submission.class_archive import (
    ARCHIVE_AT_EXIT,
    ClassArchive,
    archive_folder,
    driver_java,
    has_own_archive,
)
from airflow_lake_provider.submission.properties_file import read_properties
from airflow_lake_provider.submission.spark_installation import (
    SparkRelease,
    asking_for_connect,
    chosen_binary,
    collector_option,
    compiler_option,
    launch_environment,
    settings_folder,
    spark_home,
    spark_submit_binary,
)

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
    from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget

_log = logging.getLogger(__name__)
_PROVIDED = "provided"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CLASS_PATH = "spark.driver.extraClassPath"
_JARS = ("spark.jars", "spark.jars.packages")
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
# Where a driver, its blocks and its pages listen. Only the variable moves the pages, too.
_LOCAL_IP = "SPARK_LOCAL_IP"
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host")
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class DriverStart:
    """Arguments of ``spark-submit`` that bring the table format's runtime to the driver, and make it quicker.

    :param jars: for ``--jars``.
    :param packages: for ``--packages``.
    :param class_path: for ``--driver-class-path``; None for the plain one.
    :param options: of the driver's JVM, which come before those of an author.
    :param environment: of ``spark-submit``, beside what an author gives.
    :param given: settings of Spark by the author, this package and the site, with secrets.
    :param obstacle: why no driver can start.
    """

    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    class_path: str | None = None
    options: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    archive: ClassArchive | None = None
    attempt: str = ""
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    obstacle: LakeProviderError | None = None

    @classmethod
    def plan(
        cls,
        operator: SparkSubmitOperator,
        target: SparkTarget,
        connection: CatalogConnection,
        *,
        settings: str,
        attempt: str,
        is_short: bool = False,
        drivers: Sequence[str] = (),
    ) -> DriverStart:
        """Decide how the driver of an attempt starts; nothing that an archive needs can make it fail.

        :param settings: text of the attempt's properties file, with the author's.
        :param attempt: text that no other attempt has.
        :param is_short: whether the job ends before the JVM's second compiler pays.
        :param drivers: packages for the databases that the job reads.
        :raises LakeProviderError: no driver can start.
        """
        given = given_settings(operator, settings)
        _refuse_connect(given)
        jars, packages = runtime(connection, operator, drivers)
        start = cls(jars=jars, packages=packages, attempt=attempt, given=given)
        # Elsewhere the driver's Java and its files are another machine's.
        if target.cluster_mode:
            return start
        try:
            java = _DriverJava.of(operator, target, given)
            # Beside executors a driver only plans.
            options = java.tuned(is_short=is_short) if _runs_tasks(target) else ""
            start = replace(start, options=options, environment=java.address(target))
            folder = archive_folder(conf.get("lake", "class_archive", fallback="off"))
            return start if folder is None else start._archived(folder, operator, target, java)
        except (OSError, ValueError) as error:
            _log.info("The driver starts without an archive of its classes: %s", error)
            return start

    @property
    def makes_archive(self) -> bool:
        """Tell whether this driver writes the archive when it ends."""
        return ARCHIVE_AT_EXIT in self.options

    def waits(self) -> list[str]:
        """Return a sentence for each thing that a driver does before and after the job, and that takes its time."""
        sentences = []
        if self.packages:
            packages = ", ".join(self.packages)
            sentences.append(f"Spark resolves {packages} first, with Ivy. The first time it downloads them")
        if self.makes_archive:
            sentences.append(
                "This driver starts slowly and, after the job, writes an archive of Spark's classes, 10 to 60 s. "
                "Later drivers start quicker by it"
            )
        return sentences

    def accept(self, *, is_whole: bool) -> None:
        """Keep the archive that the driver has made, if this one was to make it.

        :param is_whole: whether the JVM ended as the job did; one that fails after that has failed over the archive.
        """
        if self.archive is not None:
            try:
                self.archive.accept(self.attempt, is_whole=is_whole)
            except OSError as error:
                _log.info("The archive of the driver's classes is not kept: %s", error)

    def release(self) -> None:
        """Let another driver make the archive, if this one has not."""
        if self.archive is not None:
            try:
                self.archive.release(self.attempt)
            except OSError as error:
                _log.info("What is left of an archive of classes is not removed: %s", error)

    def _archived(
        self, folder: Path, operator: SparkSubmitOperator, target: SparkTarget, java: _DriverJava
    ) -> DriverStart:
        binary, home = driver_java(java.environment), java.spark_home
        if _CLASS_PATH in java.given or operator.driver_class_path or has_own_archive(java.options()):
            raise ValueError(f"{_CLASS_PATH}, or an archive, is set by the author or the deployment")
        if binary is None or home is None:
            raise ValueError("which Java and which Spark spark-submit takes is not known")
        # One loader for all jars where an author adds some: a driver of JDBC is only found from its own.
        adds_jars = bool(operator.jars or operator.packages or any(name in java.given for name in _JARS))
        # An address is no path for a JVM: Spark fetches what it names.
        adds_jars |= any(map(_ADDRESS.match, self.jars))
        on_path = () if adds_jars else tuple(map(Path, self.jars))
        archive = ClassArchive.of(folder, binary, home, on_path, java.environment)
        return replace(
            self,
            # Executors elsewhere have no class path of ours. Here Spark would copy the jars for each driver.
            jars=() if on_path and _runs_tasks(target) else self.jars,
            class_path=":".join(archive.class_path) or None,
            options=" ".join(filter(None, (self.options, archive.options(self.attempt)))),
            archive=archive,
        )


@dataclass(frozen=True)
class _DriverJava:
    """Settings and options that the author, the site and the deployment have for the driver's JVM.

    :param given: settings of Spark.
    :param environment: of ``spark-submit``.
    :param spark_home: None where a ``spark-binary`` may be of any Spark.
    """

    given: Mapping[str, str]
    environment: Mapping[str, str]
    spark_home: Path | None

    @classmethod
    def of(cls, operator: SparkSubmitOperator, target: SparkTarget, given: Mapping[str, str]) -> _DriverJava:
        environment = _launched_with(operator, target)
        home = environment.get("SPARK_HOME")
        spark_folder = Path(home) if home and not _names_a_binary(operator) else None
        return cls(given, environment, spark_folder)

    def options(self) -> list[str]:
        return [self.environment.get("SPARK_SUBMIT_OPTS", ""), *(self.given.get(name, "") for name in _JAVA_OPTIONS)]

    def address(self, target: SparkTarget) -> dict[str, str]:
        """Keep a driver that no other machine has to reach from listening to any, unless it is told where to listen."""
        is_told = _LOCAL_IP in self.environment or any(name in self.given for name in _ADDRESSES)
        return {_LOCAL_IP: _LOOPBACK} if target.master.startswith("local") and not is_told else {}

    def tuned(self, *, is_short: bool) -> str:
        # What another binary calls may name a collector where nobody reads it.
        if self.spark_home is None:
            return ""
        conf = settings_folder(self.spark_home, self.environment)
        choices = [collector_option, compiler_option] if is_short else [collector_option]
        return " ".join(filter(None, (choose(self.options(), self.environment, conf) for choose in choices)))


def _runs_tasks(target: SparkTarget) -> bool:
    """Tell whether tasks run in the driver: executors of local-cluster[...] are processes of their own."""
    return target.master == "local" or target.master.startswith("local[")


def runtime(
    connection: CatalogConnection, operator: SparkSubmitOperator, drivers: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return jars and packages that bring the table format's runtime to the driver; one of the two is empty.

    :param drivers: packages for databases.
    :raises UnsupportedError: jobs do not run on the Spark that the operator submits with.
    :raises InvalidSpecError: ``[lake] spark_jars`` names what is not there.
    """
    configured = conf.get("lake", "spark_jars", fallback="").strip()
    if configured == _PROVIDED:
        return (), ()
    if not configured:
        release = spark_release(operator)
        coordinate = runtime_for(release.spark, release.scala) if release is not None else SPARK_RUNTIME
        return (), tuple(dict.fromkeys((*connection.spark_packages(coordinate), *drivers)))
    return _configured_jars(configured), ()


def _configured_jars(configured: str) -> tuple[str, ...]:
    """Return the jars that ``[lake] spark_jars`` names; one with a scheme is Spark's to look for.

    :raises InvalidSpecError: a path is not there, a folder has no jar, or a glob matches no file. Spark would go on
        without it.
    """
    jars: list[str] = []
    for name in filter(None, map(str.strip, configured.split(","))):
        path = Path(name)
        if _ADDRESS.match(name) or path.is_file():
            jars.append(name)
        elif of_folder := sorted(path.glob("*.jar")):
            jars += map(str, of_folder)
        elif matched := matched_files(name):
            jars += matched
        else:
            is_glob = "a glob that matches no file" if has_magic(name) else "which is not there"
            raise _no_jars(f"{name!r}, {'a folder without jars' if path.is_dir() else is_glob}")
    if not jars:
        raise _no_jars(f"{configured!r}, which names nothing")
    return tuple(jars)


def matched_files(pattern: str) -> list[str]:
    """Return the files that a glob of Spark matches, as a JVM takes none on its class path."""
    # Hadoop says by ^ what Python says by !.
    names = glob(pattern.replace("[^", "[!"))  # noqa: PTH207  # Path.glob takes no absolute one
    return sorted(name for name in names if Path(name).is_file())


def _no_jars(given: str) -> InvalidSpecError:
    return InvalidSpecError(
        f"[lake] spark_jars has {given}; write paths of jars, globs, or folders with jars on the machine that "
        f"submits, separated by commas. Or write '{_PROVIDED}' where Spark has them, or leave it empty for Maven's "
        "packages"
    )


def spark_release(operator: SparkSubmitOperator) -> SparkRelease | None:
    """Return the Spark that an operator submits with; None where it cannot be told."""
    home = _home_of(operator)
    return SparkRelease.of_home(home) if home is not None else None


def _home_of(operator: SparkSubmitOperator) -> Path | None:
    """Return the folder of the Spark that an operator submits with; None where it cannot be told."""
    environment = {**os.environ, **(operator.env_vars or {})}
    named = operator._spark_binary or _extra_binary(str(operator._conn_id))
    binary = chosen_binary(named, environment) or spark_submit_binary(environment)
    return spark_home(binary, environment)


def binary_of_connection(spark_conn_id: str) -> str | None:
    """Return the extra ``spark-binary`` of a Spark connection; None where it is no choice."""
    return chosen_binary(_extra_binary(spark_conn_id))


def _extra_binary(spark_conn_id: str) -> str | None:
    named: str | None = BaseHook.get_connection(spark_conn_id).extra_dejson.get("spark-binary")
    return named


def given_settings(operator: SparkSubmitOperator, settings: str) -> dict[str, str]:
    """Return the settings of the author, of this package and of the site, as Spark has them.

    :param settings: text of the attempt's properties file, with the author's.
    """
    options = {**read_properties(_site_settings(operator)), **read_properties(settings)}
    return {**options, **{name: str(value) for name, value in (operator.conf or {}).items()}}


def _refuse_connect(given: Mapping[str, str]) -> None:
    """Refuse settings that come from a file; an operator refuses those of its own arguments."""
    if (asking := asking_for_connect(given)) is not None:
        raise InvalidSpecError(
            f"spark-defaults.conf, or properties_file, has {asking}, which asks for a session of Spark Connect, and a "
            "job has a driver of its own. Remove it there, or give env_vars a SPARK_CONF_DIR without it. The Spark "
            "connection says where the job runs. Nothing was submitted"
        )


def _site_settings(operator: SparkSubmitOperator) -> str:
    """Return the text of the ``spark-defaults.conf`` of the Spark that an operator submits with."""
    environment = {**os.environ, **(operator.env_vars or {})}
    home = _home_of(operator)
    if home is None and not environment.get("SPARK_CONF_DIR"):
        return ""
    defaults = settings_folder(home or Path(), environment) / "spark-defaults.conf"
    is_there = defaults.is_file() and os.access(defaults, os.R_OK)
    return defaults.read_text(encoding="utf-8", errors="replace") if is_there else ""


def _launched_with(operator: SparkSubmitOperator, target: SparkTarget) -> dict[str, str]:
    return {**os.environ, **launch_environment(target.master), **(operator.env_vars or {})}


def _names_a_binary(operator: SparkSubmitOperator) -> bool:
    return bool(operator._spark_binary or binary_of_connection(str(operator._conn_id)))
