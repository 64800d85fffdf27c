"""Submit Spark applications through Airflow's own SparkSubmitHook, and clean up after those that are killed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.sdk import BaseHook

from airflow_lake_provider.catalogs.catalog_connection import read_extra
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.spark_connection import EXAMPLE, refuse_extra, refuse_lost_keytab, refuse_master
from airflow_lake_provider.hooks.stored_connection import stored_connection
from airflow_lake_provider.submission.spark_installation import (
    chosen_binary,
    launch_environment,
    spark_submit_binary,
    without_spark_connect,
)
from airflow_lake_provider.submission.spark_log import SparkLog, SparkOutput
from airflow_lake_provider.submission.yarn_staging import (
    folder_in_line,
    is_of_application,
    remove_staged_files,
    staging_folder,
)

# States in which an application of YARN changes no more, as ``query_yarn_application_status`` says them.
ENDED = ("SUCCEEDED", "FAILED", "NOT_FOUND")
# Read by ``spark-submit`` for the JVM of this machine.
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
# Lines of Spark's own log.
_REPLAYED = 1000
# As the driver says it, see ``spark_jobs/run_job.py``.
_APPLICATION = re.compile(r"\[lake\] application ([\w-]+)(?:, Spark UI (\S+))?")


@dataclass(frozen=True)
class SparkApplication:
    """An application as a worker gets to know it.

    :param id: of Spark or YARN.
    :param ui_url: address of the driver's pages while it runs; None in cluster mode, and without ``spark.ui.enabled``.
    """

    id: str
    ui_url: str | None = None

    @classmethod
    def in_line(cls, line: str) -> SparkApplication | None:
        """Return the application that a line of the driver names; None for other lines."""
        match = _APPLICATION.fullmatch(line.strip())
        return None if match is None else cls(id=match[1], ui_url=web_address(match[2]))


@dataclass(frozen=True, kw_only=True)
class SparkTarget:
    """Master and deploy mode of a Spark connection.

    :param master: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://https://host:443``.
    :param cluster_mode: whether the driver runs in the cluster, on another machine than this worker.
    :param history_url: address of Spark's history server, from the extra ``spark_history_url``.
    :param yarn_url: address of YARN's resource manager, from the extra ``yarn_resourcemanager_webapp_address``.
    """

    master: str
    cluster_mode: bool
    history_url: str | None = None
    yarn_url: str | None = None

    @classmethod
    def read(cls, spark_conn_id: str, deploy_mode: str | None) -> SparkTarget:
        """Read the Spark connection.

        :param deploy_mode: the author's, before the connection's extra ``deploy-mode``.
        :raises InvalidConnectionError: it does not exist, its host is no master, or its extra is no JSON object of
            texts. The official hook would silently submit to YARN, and Airflow take the extra for empty.
        :raises UnsupportedError: a master of Kubernetes without the provider for it.
        :raises InvalidSpecError: cluster mode on one machine, or on a standalone master, where Spark has none for
            Python; another mode.
        """
        connection = stored_connection(spark_conn_id, EXAMPLE, kind="Spark connection")
        host = connection.host or ""
        plain = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
        master = host if plain else f"{connection.conn_type}://{host}"
        master = f"{master}:{connection.port}" if connection.port else master
        extra = read_extra(spark_conn_id, connection.extra)
        refuse_master(spark_conn_id, master)
        refuse_extra(spark_conn_id, extra)
        mode = deploy_mode or extra.get("deploy-mode") or "client"
        if mode not in ("client", "cluster"):
            raise InvalidSpecError(
                f"Spark connection {spark_conn_id!r}: the deploy mode must be 'client' or 'cluster', got {mode!r}"
            )
        cluster = mode == "cluster"
        if cluster and master.startswith("local"):
            raise InvalidSpecError(
                f"Spark connection {spark_conn_id!r}: {master!r} has no cluster; remove the deploy mode 'cluster', or "
                "name a master such as 'yarn' or 'k8s://https://host:443'"
            )
        if cluster and master.startswith("spark://"):
            raise InvalidSpecError(
                f"Spark connection {spark_conn_id!r}: a standalone master runs Python in client mode only; "
                "remove the deploy mode 'cluster'"
            )
        return cls(
            master=master,
            cluster_mode=cluster,
            history_url=web_address(extra.get("spark_history_url")),
            yarn_url=web_address(extra.get("yarn_resourcemanager_webapp_address")),
        )


def web_address(text: object) -> str | None:
    """Return an address that a link may have: of HTTP, without a user, a query or a slash at its end; else None.

    :param text: a host and a port alone are of HTTP, as Airflow's hook takes those of YARN.
    """
    given = text.strip() if isinstance(text, str) else ""
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        # Of http:/h the scheme would be the host.
        is_host = bool(parts.hostname) and parts.port != 0 and not parts.netloc.endswith(":")
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not is_host:
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


class SortedLines:
    """Logger of the official hook while it reads ``spark-submit``: Spark's own lines go to a file.

    The hook reads each line and then logs it, without the spaces that it begins with.

    :param log: of the task.
    :param spark_log: takes Spark's own lines.
    """

    def __init__(self, log: Any, spark_log: SparkLog) -> None:
        self._log = log
        self._spark_log = spark_log
        self._output = SparkOutput()
        self._line = ""
        self._logged: set[str] = set()
        self._is_troubled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def begin(self, line: str) -> None:
        """Note the line that the hook reads next."""
        self._line = line

    def info(self, message: str, *arguments: Any) -> None:
        """Log what the hook says: of what it finds in a line once, and the line itself where it belongs."""
        if arguments or message != self._line.strip():
            text = message % arguments if arguments else message
            # YARN's client names the application in each of its lines, one a second.
            if text not in self._logged:
                self._logged.add(text)
                self._log.info(message, *arguments)
            return
        line = self._line.rstrip()
        if not (self._output.is_own(line) and self._spark_log.write(f"{line}\n")):
            self._tell_of_trouble()
            self._log.info(line)
        elif (wait := self._output.wait(line)) is not None:
            self._log.info("Spark: %s", wait)

    def _tell_of_trouble(self) -> None:
        if self._spark_log.trouble and not self._is_troubled:
            self._is_troubled = True
            self._log.warning("Spark's own log takes no more lines, they follow here: %s", self._spark_log.trouble)


class LakeSparkSubmitHook(SparkSubmitHook):
    """The official hook, which keeps spark-defaults.conf in force, and kills an application with all its secrets."""

    before_submit: Callable[[], None]
    on_application: Callable[[SparkApplication], None]
    before_kill: Callable[[], None]
    java_options: str = ""
    on_line: Callable[[str], None]
    environment: Mapping[str, str]
    spark_log: SparkLog
    # Folder that Spark has named for the application's files, secrets among them.
    staged_in: str = ""
    # Of the lines of ``spark-submit`` while they are read.
    _lines: SortedLines | None = None

    @classmethod
    def adopt(
        cls,
        hook: SparkSubmitHook,
        before_submit: Callable[[], None],
        on_application: Callable[[SparkApplication], None],
        before_kill: Callable[[], None] = lambda: None,
        java_options: str = "",
        on_line: Callable[[str], None] = lambda _: None,
        environment: Mapping[str, str] | None = None,
        spark_log: SparkLog | None = None,
    ) -> LakeSparkSubmitHook:
        """Return the hook that the official operator built from its some forty arguments, as one of this class.

        :param before_submit: called before an application is started, and not before one is reconnected to.
        :param on_application: called once, when the application is known.
        :param before_kill: called before the application is told to end.
        :param java_options: of the JVM that ``spark-submit`` starts on this machine, before those of others.
        :param on_line: called with each line that the application writes to this worker.
        :param environment: of ``spark-submit``, before an author's.
        :param spark_log: takes Spark's own lines; None leaves them in the task's log.
        """
        lake_hook = cls.__new__(cls)
        lake_hook.__dict__.update(vars(hook))
        # A form, and other tools, store null for what was left out.
        lake_hook._connection["spark_binary"] = lake_hook._connection["spark_binary"] or DEFAULT_SPARK_BINARY
        lake_hook.before_submit = before_submit
        lake_hook.on_application = on_application
        lake_hook.before_kill = before_kill
        lake_hook.java_options = java_options
        lake_hook.on_line = on_line
        lake_hook.environment = environment or {}
        lake_hook.spark_log = spark_log or SparkLog()
        return lake_hook

    @classmethod
    def of_application(
        cls, application_id: str, conn_id: str, arguments: Mapping[str, Any], staged_in: str = ""
    ) -> LakeSparkSubmitHook:
        """Return a hook that looks at an application of YARN, and may end it.

        :param arguments: of SparkSubmitHook, beside those that tell it to ask the resource manager.
        :param staged_in: the folder of its files, where Spark has named it.
        """
        hook = SparkSubmitHook(conn_id=conn_id, deploy_mode="cluster", yarn_track_via_rm_api=True, **arguments)
        lake_hook = cls.adopt(hook, lambda: None, lambda _: None)
        lake_hook.follow(application_id, staged_in)
        return lake_hook

    def follow(self, application_id: str, staged_in: str = "") -> None:
        """Take an application of YARN for this hook's own, whoever submitted it; ``on_kill`` then ends it.

        :param staged_in: the folder of its files, where Spark has named it.
        """
        if self._is_yarn_cluster_mode:
            self._yarn_application_id = application_id
            self.staged_in = staged_in or self.staged_in

    def query_yarn_application_status(self, application_id: str) -> str:
        """Return the state of an application; ``NOT_FOUND`` for one that YARN has forgotten.

        It keeps a thousand that have ended, and none over a restart without recovery: no retry would find it.
        """
        try:
            return str(super().query_yarn_application_status(application_id))
        except RuntimeError as error:
            if "HTTP 404 " not in str(error):
                raise
            self.log.warning("YARN does not know %s any more", application_id)
            return "NOT_FOUND"

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Start the application."""
        self.before_submit()
        # The official hook only adds variables to the worker's.
        with without_spark_connect():
            driver: str | None = super().submit(application, **kwargs)
        return driver

    @property
    def log(self) -> Any:
        """Return a logger; while the lines of ``spark-submit`` are read, one that sorts them."""
        return self._lines or super().log

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        self._lines = SortedLines(super().log, self.spark_log)
        try:
            super()._process_spark_submit_log(self._watched(itr, self._lines))
        finally:
            self._lines = None
            self.spark_log.close()
            self._replay()

    def _replay(self) -> None:
        lines = self.spark_log.last_lines(_REPLAYED) if self.spark_log.is_replayed else []
        if lines:
            # Airflow's page folds a group.
            for line in ("::group::Spark's own log", *lines, "::endgroup::"):
                self.log.info(line)

    def _watched(self, lines: Iterator[Any], sorted_lines: SortedLines) -> Iterator[Any]:
        """Yield the lines, and tell of the application once one of them names it."""
        is_announced = False
        for line in lines:
            self.on_line(str(line))
            self.staged_in = folder_in_line(str(line)) or self.staged_in
            sorted_lines.begin(str(line))
            yield line
            # The official hook has read the line by now.
            of_yarn = SparkApplication(id=self._yarn_application_id) if self._yarn_application_id else None
            application = None if is_announced else SparkApplication.in_line(str(line)) or of_yarn
            if application is not None:
                is_announced = True
                self.on_application(application)

    def _build_spark_common_args(self) -> list[str]:
        extra = BaseHook.get_connection(self._conn_id).extra_dejson
        refuse_lost_keytab(self._conn_id, extra, self._connection["keytab"])
        arguments: list[str] = super()._build_spark_common_args()
        # With a properties file Spark otherwise ignores the site's spark-defaults.conf.
        arguments.append("--load-spark-defaults")
        if not self._connection["deploy_mode"]:
            # As this worker takes it; spark-defaults.conf may say cluster, where nobody would find the report.
            arguments += ["--deploy-mode", "client"]
        # Not through env_vars: on YARN and Kubernetes those become the environment of the remote driver.
        launch: dict[str, Any] = launch_environment(self._connection["master"], self._connection["spark_binary"])
        self._env = {**self.environment, **launch, **(self._env or {})}
        theirs = str(self._env.get(_JAVA_OPTIONS, os.environ.get(_JAVA_OPTIONS, "")))
        # Not as a setting of Spark: that would replace the one of spark-defaults.conf.
        if self.java_options and self.java_options not in theirs:
            self._env[_JAVA_OPTIONS] = f"{self.java_options} {theirs}".strip()
        return arguments

    def on_kill(self) -> None:
        """End the application, and remove its secrets: on this machine, and what YARN keeps of it."""
        # The worker's own files first: the cluster may take its time, and Airflow does not wait for long.
        self.before_kill()
        super().on_kill()
        self.remove_staged_files()

    def remove_files_of_lost_driver(self) -> None:
        """Remove what an application left in YARN's staging folder, if it has ended; one that runs needs it."""
        if not self._yarn_application_id or not self._is_yarn_cluster_mode:
            return
        try:
            status = self.query_yarn_application_status(self._yarn_application_id)
        except (RuntimeError, ValueError) as error:
            self.log.warning("Nobody knows whether %s has ended: %s", self._yarn_application_id, error)
        else:
            if status in ENDED:
                self.remove_staged_files()

    def remove_staged_files(self) -> None:
        """Remove what a killed application left in YARN's staging folder: the settings, with secrets, are among it."""
        application = self._yarn_application_id
        if not application or not self._is_yarn_cluster_mode:
            return
        environment = {**launch_environment(self._connection["master"]), **(self._env_vars or {}), **(self._env or {})}
        is_certain = is_of_application(self.staged_in, application)
        folder = self.staged_in if is_certain else self._likely_folder(application, environment)
        if self._proxy_user:
            # Hadoop's own variable: the home and the rights are this user's.
            environment["HADOOP_PROXY_USER"] = self._proxy_user
        binary = self._connection["spark_binary"]
        # Where nothing was submitted here, nobody has looked for the installed one yet.
        binary = chosen_binary(binary) or spark_submit_binary() or binary
        trouble = remove_staged_files(folder, binary, environment, is_certain=is_certain)
        if trouble is not None:
            self.log.warning(
                "Files of the application may be left in the cluster's file system, and they hold the connection's "
                "secrets. Look for %s and remove it: %s",
                folder,
                trouble,
            )

    def _likely_folder(self, application: str, environment: Mapping[str, str]) -> str:
        return staging_folder(
            application,
            self._conf,
            principal=self._connection["principal"],
            proxy_user=self._proxy_user,
            environment=environment,
        )
