"""The jars a catalog needs in Spark. All versions are here."""

from __future__ import annotations

from collections.abc import Mapping

ICEBERG_VERSION = "1.12.0"
SPARK_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
SQLITE_DRIVER = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRESQL_DRIVER = "org.postgresql:postgresql:42.7.8"
_BUNDLES = {
    "aws": f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
    "gcp": f"org.apache.iceberg:iceberg-gcp-bundle:{ICEBERG_VERSION}",
    "azure": f"org.apache.iceberg:iceberg-azure-bundle:{ICEBERG_VERSION}",
}
_CLOUD_OF_PREFIX = {"s3.": "aws", "client.": "aws", "glue.": "aws", "gcs.": "gcp", "adls.": "azure"}


def packages(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return Maven coordinates for ``spark.jars.packages``.

    :param properties: Iceberg-Java catalog properties, as `spark_catalog.catalog_properties` returns them.
    """
    clouds = {cloud for cloud in _BUNDLES if f".iceberg.{cloud}." in properties.get("io-impl", "")}
    if "io-impl" not in properties:
        # A REST server knows the warehouse by name; the store's properties tell what it is.
        clouds |= {
            cloud for prefix, cloud in _CLOUD_OF_PREFIX.items() if any(name.startswith(prefix) for name in properties)
        }
    if properties.get("type") == "glue" or properties.get("rest.auth.type") == "sigv4":
        clouds.add("aws")
    return (SPARK_RUNTIME, *_driver(properties.get("uri", "")), *(_BUNDLES[cloud] for cloud in sorted(clouds)))


def _driver(uri: str) -> tuple[str, ...]:
    drivers = {"jdbc:sqlite:": SQLITE_DRIVER, "jdbc:postgresql:": POSTGRESQL_DRIVER}
    return tuple(driver for prefix, driver in drivers.items() if uri.startswith(prefix))
