"""Refuse a Spark connection that the official hook would follow to somewhere else, or fail over without a name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow.providers.apache.spark.hooks import spark_submit

from airflow_lake_provider.contracts.errors import InvalidConnectionError, UnsupportedError

EXAMPLE = '{"conn_type": "spark", "host": "local[2]"}, which is one machine'
# What Spark takes, once its JVM has started. Java reads no host with ``_``.
_MACHINE = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+"
_MASTER = re.compile(
    r"yarn|local(?:\[(?:0*[1-9][0-9]*|\*)(?:\s*,\s*[0-9]+)?\])?|local-cluster\[\s*[0-9]+(?:\s*,\s*[0-9]+){2}\s*\]|"
    rf"spark://{_MACHINE}(?:,{_MACHINE})*|(?:k8s|mesos)://\S+"
)
_TEXTS = ("queue", "deploy-mode", "spark-binary", "namespace", "principal", "keytab")


def refuse_master(spark_conn_id: str, master: str) -> None:
    """Refuse a master that no ``spark-submit`` takes, or one of Kubernetes without the provider for it.

    :raises InvalidConnectionError: with masters that are.
    :raises UnsupportedError: naming the extra to install.
    """
    if not _MASTER.fullmatch(master):
        raise InvalidConnectionError(
            f"Spark connection {spark_conn_id!r}: its host makes the master {master!r}, expected 'local[2]', "
            "'spark://host:7077', 'yarn' or 'k8s://https://host:443'"
        )
    # The official hook imports it where it is installed, and fails by the name otherwise.
    if master.startswith("k8s") and not hasattr(spark_submit, "kube_client"):
        raise UnsupportedError(
            f"Spark connection {spark_conn_id!r}: a master of Kubernetes needs the package "
            "apache-airflow-providers-cncf-kubernetes; install this one with the extra 'kubernetes'"
        )


def refuse_extra(spark_conn_id: str, extra: Mapping[str, object]) -> None:
    """Refuse words of the command line that are no texts, and a port that is none.

    :raises InvalidConnectionError: naming the entry of the extra.
    """
    for name in _TEXTS:
        value = extra.get(name)
        if value is not None and not isinstance(value, str):
            # A keytab is a secret.
            shown = f"a {type(value).__name__}" if name == "keytab" else repr(value)
            raise InvalidConnectionError(f"Spark connection {spark_conn_id!r}: {name!r} must be a text, got {shown}")
    # The official hook takes it for a number, wherever it submits to.
    port = extra.get("rest-port", 6066)
    if isinstance(port, (bool, float)) or not re.fullmatch(r"[0-9]{1,5}", str(port)) or not 0 < int(str(port)) < 2**16:
        raise InvalidConnectionError(
            f"Spark connection {spark_conn_id!r}: 'rest-port' must be the number of a port such as 6066, got {port!r}; "
            "correct it, or remove it from the extra"
        )


def refuse_lost_keytab(spark_conn_id: str, extra: Mapping[str, object], keytab: str | None) -> None:
    """Refuse a submission without the keytab of its connection: the official hook goes on as whoever the worker is.

    :param keytab: path that the hook has put it at.
    :raises InvalidConnectionError: where there is none.
    """
    if extra.get("keytab") and not keytab:
        raise InvalidConnectionError(
            f"Spark connection {spark_conn_id!r}: its keytab could not be put into a file. It has to be base64, and "
            "its principal without a '/', as the official hook names the file after it. Or give the operator keytab, "
            "the path of a file, and principal"
        )
