"""From a spec to a running Spark application, on Airflow's own SparkSubmitHook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError
from airflow_lake_provider.submission.spark_installation import launch_environment
from airflow_lake_provider.submission.yarn_staging import remove_staged_files, staging_folder


@dataclass(frozen=True, kw_only=True)
class SparkTarget:
    """Master and deploy mode of a Spark connection.

    :param master: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://https://host:443``.
    :param cluster_mode: whether the driver runs in the cluster, on another machine than this worker.
    """

    master: str
    cluster_mode: bool

    @classmethod
    def read(cls, spark_conn_id: str, deploy_mode: str | None) -> SparkTarget:
        """Read the Spark connection.

        :param deploy_mode: the author's, before the connection's extra ``deploy-mode``.
        :raises InvalidConnectionError: it does not exist; the official hook would silently submit to YARN.
        :raises InvalidSpecError: cluster mode on a standalone master, which Spark refuses for Python.
        """
        try:
            connection = BaseHook.get_connection(spark_conn_id)
        except AirflowNotFoundException as error:
            raise InvalidConnectionError(
                f"Spark connection {spark_conn_id!r} does not exist. Create it, for one machine for example as JSON "
                '{"conn_type": "spark", "host": "local[2]"}'
            ) from error
        host = connection.host or ""
        plain = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
        master = host if plain else f"{connection.conn_type}://{host}"
        cluster = (deploy_mode or connection.extra_dejson.get("deploy-mode")) == "cluster"
        if cluster and master.startswith("spark://"):
            raise InvalidSpecError(
                f"Spark connection {spark_conn_id!r}: a standalone master runs Python in client mode only; "
                "remove the deploy mode 'cluster'"
            )
        return cls(master=master, cluster_mode=cluster)


class LakeSparkSubmitHook(SparkSubmitHook):
    """The official hook, which also keeps spark-defaults.conf in force and finds the installed pyspark."""

    before_submit: Callable[[], None]

    @classmethod
    def adopt(cls, hook: SparkSubmitHook, before_submit: Callable[[], None]) -> LakeSparkSubmitHook:
        """Return the hook that the official operator built from its some forty arguments, as one of this class.

        :param before_submit: called before an application is started, and not before one is reconnected to.
        """
        lake_hook = cls.__new__(cls)
        lake_hook.__dict__.update(vars(hook))
        lake_hook.before_submit = before_submit
        return lake_hook

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Start the application."""
        self.before_submit()
        driver: str | None = super().submit(application, **kwargs)
        return driver

    def _build_spark_common_args(self) -> list[str]:
        arguments: list[str] = super()._build_spark_common_args()
        # With a properties file Spark otherwise ignores the site's spark-defaults.conf.
        arguments.append("--load-spark-defaults")
        # Not through env_vars: on YARN and Kubernetes those become the environment of the remote driver.
        launch: dict[str, Any] = launch_environment(self._connection["master"])
        self._env = {**launch, **(self._env or {})}
        return arguments

    def remove_staged_files(self) -> None:
        """Remove what a killed application left in YARN's staging folder: the settings, with secrets, are among it."""
        application = self._yarn_application_id
        if not application or not self._is_yarn_cluster_mode:
            return
        folder = staging_folder(application, self._conf)
        trouble = remove_staged_files(folder, self._connection["spark_binary"], self._env or {})
        if trouble is not None:
            self.log.warning(
                "Files of the killed application may be left in %s of the cluster's file system, and they hold "
                "the connection's secrets. Remove them: %s",
                folder,
                trouble,
            )
