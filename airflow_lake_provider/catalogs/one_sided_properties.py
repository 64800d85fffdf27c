"""Properties that only one of the two sides knows: each is refused with the reason and the way out."""

from __future__ import annotations

_TUNING = "it tunes PyIceberg's own client"
_PROFILE = "Iceberg-Java reads no named AWS profile; set AWS_PROFILE where both sides run"
_GLUE_KEYS = "Iceberg-Java's Glue client takes no keys from properties; use a role or AWS_ACCESS_KEY_ID where both run"
_AZURE_IDENTITY = (
    "Iceberg-Java reads the service principal from AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET "
    "where Spark runs"
)
_AZURE_HOST = "Iceberg-Java takes the host of an Azure account from the table's location"
_KERBEROS = "Spark signs in with spark.kerberos.principal and spark.kerberos.keytab, given to the job"
_NESTED = "Iceberg-Java has no such object, it has rest.auth.* properties"
_SIGNER = "a REST server announces remote signing by itself, and both sides follow it"

# name -> why the other side cannot have it
PYICEBERG_ONLY: dict[str, str] = {
    "py-catalog-impl": "it names a Python class",
    "py-io-impl": "it names a Python class",
    "auth": _NESTED,
    "ssl": "Iceberg-Java takes certificates from the trust store of its JVM",
    "namespace-separator": "the two sides expect it in different encodings",
    "scan-planning-mode": "Spark plans its scans itself",
    "echo": _TUNING,
    "pool_pre_ping": _TUNING,
    "ugi": "Spark talks to Hive as the user of its process",
    "hive.hive2-compatible": "Iceberg-Java writes Hive 2 types always",
    "hive.kerberos-authentication": _KERBEROS + ", and needs hadoop.hive.metastore.kerberos.principal in 'spark'",
    "hive.kerberos-service-name": "Iceberg-Java takes it from hadoop.hive.metastore.kerberos.principal in 'spark'",
    "lock-check-retries": "Iceberg-Java waits for a time, hadoop.iceberg.hive.lock-timeout-ms in 'spark'",
    "glue.profile-name": _PROFILE,
    "glue.access-key-id": _GLUE_KEYS,
    "glue.secret-access-key": _GLUE_KEYS,
    "glue.session-token": _GLUE_KEYS,
    "glue.max-retries": "Iceberg-Java's Glue client has a fixed retry mode",
    "glue.retry-mode": "Iceberg-Java's Glue client has a fixed retry mode",
    "client.profile-name": _PROFILE,
    "s3.profile-name": _PROFILE,
    "s3.retry-strategy-impl": "it names a Python class",
    "s3.signer": _SIGNER,
    "s3.signer.uri": _SIGNER,
    "s3.signer.endpoint": _SIGNER,
    "gcs.access": _TUNING,
    "gcs.consistency": _TUNING,
    "gcs.cache-timeout": _TUNING,
    "gcs.session-kwargs": _TUNING,
    "gcs.default-bucket-location": _TUNING,
    "gcs.version-aware": _TUNING,
    "adls.connection-string": "Iceberg-Java reads an endpoint there; write adls.account-name and adls.account-key",
    "adls.credential": "it names a Python object; write adls.account-key, adls.sas-token or adls.token",
    "adls.tenant-id": _AZURE_IDENTITY,
    "adls.client-id": _AZURE_IDENTITY,
    "adls.client-secret": _AZURE_IDENTITY,
    "adls.blob-storage-authority": _AZURE_HOST,
    "adls.dfs-storage-authority": _AZURE_HOST,
    "adls.blob-storage-scheme": _AZURE_HOST,
    "adls.dfs-storage-scheme": _AZURE_HOST,
    "adls.anon": "Iceberg-Java always signs in to Azure",
    "hdfs.user": "Spark acts as the user of its process; set HADOOP_USER_NAME where it runs",
    "hdfs.kerberos_ticket": _KERBEROS,
}

# Iceberg-Java's name -> the PyIceberg property to write instead; empty: there is none
JAVA_ONLY: dict[str, str] = {
    "s3.path-style-access": "s3.force-virtual-addressing (its opposite)",
    "client.assume-role.arn": "s3.role-arn",
    "client.assume-role.region": "s3.region",
    "client.assume-role.session-name": "s3.role-session-name",
    "client.factory": "s3.role-arn, for a role to assume",
    "client.credentials-provider": "s3.anonymous, for open buckets",
    "s3.cross-region-access-enabled": "s3.resolve-region",
    "s3.sse.type": "s3.server-side-encryption",
    "s3.sse.key": "s3.sse-kms-key-id",
    "gcs.user-project": "gcs.requester-pays and gcs.project-id",
    "adls.auth.shared-key.account.name": "adls.account-name",
    "adls.auth.shared-key.account.key": "adls.account-key",
    "rest.auth.type": "rest.sigv4-enabled, token or credential",
    "rest.access-key-id": "client.access-key-id",
    "rest.secret-access-key": "client.secret-access-key",
    "rest.session-token": "client.session-token",
    "jdbc.schema-version": "schema_version",
    "jdbc.init-catalog-tables": "init_catalog_tables",
    "jdbc.user": "the connection's login field",
    "jdbc.password": "the connection's password field",
    "catalog-impl": "",
    "io-impl": "",
    "cache-enabled": "",
    "clients": "",
}
JAVA_ONLY_PREFIXES = ("table-default.", "table-override.", "hadoop.", "http-client.", "jdbc.", "lock.", "rest.client.")
