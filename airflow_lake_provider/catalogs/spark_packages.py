"""The jars a catalog needs in Spark. All versions are here."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_lake_provider.contracts.errors import UnsupportedError

ICEBERG_VERSION = "1.12.0"
# Spark and its Scala, those that the tests ran on; the first is the Spark that comes with the package.
RUNTIMES = {
    release: f"org.apache.iceberg:iceberg-spark-runtime-{'_'.join(release)}:{ICEBERG_VERSION}"
    for release in (("4.1", "2.13"), ("3.5", "2.12"))
}
SPARK_RUNTIME = RUNTIMES["4.1", "2.13"]
SQLITE_DRIVER = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRESQL_DRIVER = "org.postgresql:postgresql:42.7.8"
_BUNDLES = {
    "aws": f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
    "gcp": f"org.apache.iceberg:iceberg-gcp-bundle:{ICEBERG_VERSION}",
    "azure": f"org.apache.iceberg:iceberg-azure-bundle:{ICEBERG_VERSION}",
}
_CLOUD_OF_PREFIX = {"s3.": "aws", "client.": "aws", "glue.": "aws", "gcs.": "gcp", "adls.": "azure"}


def runtime_for(spark: str, scala: str) -> str:
    """Return the coordinate of Iceberg's runtime for a Spark.

    :param spark: ``3.5``; ``scala``: ``2.12``.
    :raises UnsupportedError: jobs do not run on it.
    """
    found = RUNTIMES.get((spark, scala))
    if found is None:
        known = " or ".join(f"Spark {version} with Scala {of}" for version, of in RUNTIMES)
        raise UnsupportedError(
            f"jobs run on {known}, and the worker submits with Spark {spark} and Scala {scala}; set SPARK_HOME or "
            "the operator's spark_binary to one of them, or bring jars of your own with [lake] spark_jars"
        )
    return found


def packages(properties: Mapping[str, str], runtime: str = SPARK_RUNTIME) -> tuple[str, ...]:
    """Return Maven coordinates for ``spark.jars.packages``.

    :param properties: Iceberg-Java catalog properties, as `spark_catalog_properties.catalog_properties` returns them.
    :param runtime: coordinate of Iceberg's runtime, of :func:`runtime_for`.
    """
    clouds = {cloud for cloud in _BUNDLES if f".iceberg.{cloud}." in properties.get("io-impl", "")}
    if "io-impl" not in properties:
        # A REST server knows the warehouse by name; the store's properties tell what it is.
        clouds |= {
            cloud for prefix, cloud in _CLOUD_OF_PREFIX.items() if any(name.startswith(prefix) for name in properties)
        }
    if properties.get("type") == "glue" or properties.get("rest.auth.type") == "sigv4":
        clouds.add("aws")
    return (runtime, *_driver(properties.get("uri", "")), *(_BUNDLES[cloud] for cloud in sorted(clouds)))


def _driver(uri: str) -> tuple[str, ...]:
    drivers = {"jdbc:sqlite:": SQLITE_DRIVER, "jdbc:postgresql:": POSTGRESQL_DRIVER}
    return tuple(driver for prefix, driver in drivers.items() if uri.startswith(prefix))
