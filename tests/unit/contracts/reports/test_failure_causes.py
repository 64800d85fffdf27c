"""Sentences of programs about a failure, and the cause that it is taken for."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    CatalogUnavailableError,
    InvalidConnectionError,
    JobFailedError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports import failure_causes
from airflow_lake_provider.contracts.reports.failure_causes import cause_in

LOST = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
LOST += "stage 1.0 (TID 7) (10.0.0.4 executor 1): "
EXITED = LOST + "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
NOT_FOUND = "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
SAID = {
    "NO_SPARK": [
        "[Errno 2] No such file or directory: 'spark-submit'",
        "/usr/local/bin/spark-submit: line 27: /opt/spark/bin/spark-class: No such file or directory",
        "Failed to find Spark jars directory (/opt/spark/assembly/target/scala-2.13/jars).",
    ],
    "JAVA": [
        "JAVA_HOME is not set",
        "/opt/spark/bin/spark-class: line 71: /usr/lib/jvm/java-17/bin/java: No such file or directory",
        (
            "UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a more recent version "
            "of the Java Runtime (class file version 61.0), this version of the Java Runtime only recognizes class "
            "file versions up to 55.0"
        ),
        "SparkException: " + LOST + "java.lang.UnsupportedClassVersionError: org/apache/iceberg/spark/X has been",
    ],
    "NO_PACKAGES": [
        (
            'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: '
            "org.apache.iceberg#iceberg-spark-runtime-4.1_2.13;1.12.0: not found]"
        ),
        "RuntimeException: [download failed: org.postgresql#postgresql;42.7.8!postgresql.jar]",
    ],
    "NO_JARS": [
        "ClassNotFoundException: org.apache.iceberg.spark.SparkCatalog",
        "SparkException: Cannot find catalog plugin class for catalog 'lake': org.apache.iceberg.spark.SparkCatalog.",
        "NoClassDefFoundError: org/apache/iceberg/catalog/Catalog",
        "SparkException: " + LOST + "java.lang.ClassNotFoundException: org.apache.iceberg.spark.source.X\n\tat java.X",
        "NoClassDefFoundError: software/amazon/awssdk/services/s3/S3Client",
        "ClassNotFoundException: com.azure.storage.file.datalake.DataLakeFileClient",
        "SQLException: No suitable driver found for jdbc:sqlite:/lake/catalog.db",
    ],
    "NO_CONNECTOR": [
        "AnalysisException: [AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] Cannot call the FROM_AVRO. SQLSTATE: 22KD3",
        "AnalysisException: [PROTOBUF_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] Cannot call the x. SQLSTATE: 22KD3",
        NOT_FOUND,
        f"RuntimeException: java.lang.{NOT_FOUND}",
        "ClassNotFoundException: Class com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem not found",
        'UnsupportedFileSystemException: No FileSystem for scheme "s3"',
    ],
    "NO_PROTOBUF": [
        "PythonException: Traceback: ... ModuleNotFoundError: No module named 'google'",
        "SparkException: " + LOST + "ModuleNotFoundError: No module named 'google.protobuf'\n\n\tat org.apache.X",
    ],
    "DISK_FULL": [
        "IOException: No space left on device",
        "FSError: java.io.IOException: No space left on device",
        "OSError: [Errno 28] No space left on device: '/lake/x.parquet'",
        "IOException: Disk quota exceeded",
        "IOException: File too large",
        "OSError: [Errno 27] File too large",
        "IOException: There is not enough space on the disk",
        (
            "RemoteException: org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota of /lake "
            "is exceeded: quota = 10485760 B = 10 MB but diskspace consumed = 402653184 B = 384 MB"
        ),
        "NSQuotaExceededException: The NameSpace quota (directories and files) of directory /lake is exceeded",
        (
            "RemoteException: File /lake/a.parquet could only be written to 0 of the 1 minReplication nodes. There "
            "are 1 datanode(s) running and 1 node(s) are excluded in this operation."
        ),
        "S3Exception: Storage backend has reached its minimum free drive threshold. (Service: S3, Status Code: 507)",
        "S3Exception: null (Service: S3, Status Code: 403, Request ID: tx0) QuotaExceeded",
        "SQLiteException: [SQLITE_FULL] Insertion failed because database is full (database or disk is full)",
        'PSQLException: ERROR: could not extend file "base/5/16397": No space left on device',
        "SQLException: Got error 28 from storage engine",
        "SparkException: " + LOST + "java.io.IOException: No space left on device\n\tat java.io.X.write(X.java:1)",
    ],
    "SCRATCH_FULL": [
        "IOException: No space left on device\n\tat org.apache.spark.storage.TimeTrackingOutputStream.write(T.scala:1)",
        (
            "SparkException: "
            + LOST
            + "java.io.IOException: Disk quota exceeded\n\tat java.io.FileOutputStream.write()"
            "\n\tat org.apache.spark.shuffle.IndexShuffleBlockResolver.writeMetadataFile(I.scala:1)"
        ),
        (
            "FileNotFoundException: /tmp/blockmgr-0a8c1b9e-3c1f-4a50-9b7b-0123456789ab/0c/temp_shuffle (No space left "
            "on device)"
        ),
    ],
    "SCRATCH_GONE": [
        "IOException: Failed to create a temp directory (under /scratch) after 10 attempts!",
        "IOException: Failed to create local dir in /scratch/blockmgr-1/0c.",
        "NoSuchFileException: /tmp/blockmgr-0a8c1b9e-3c1f-4a50-9b7b-0123456789ab/0c/shuffle_0_0_0.index",
        "FileNotFoundException: /tmp/blockmgr-0a8c1b9e-3c1f-4a50-9b7b-0123456789ab/11 (No such file or directory)",
    ],
    "HEAP": [
        "OutOfMemoryError: Java heap space",
        "OutOfMemoryError: GC overhead limit exceeded",
        "OutOfMemoryError: Metaspace",
        "OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached",
        "OutOfMemoryError: Cannot reserve 16777216 bytes of direct buffer memory",
        "OutOfMemoryError: Requested array size exceeds VM limit",
        "SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.",
        "SparkException: " + EXITED + "Command exited with code 1\njava.lang.OutOfMemoryError: Java heap space",
        "SparkException: " + EXITED + "The executor with id 1 exited with exit code 52(JVM OOM).",
        "Error occurred during initialization of VM\nCould not reserve enough space for 8388608KB object heap",
        "# There is insufficient memory for the Java Runtime Environment to continue.",
        "MemoryError: Unable to allocate 8.00 GiB for an array with shape (1073741824,) and data type int64",
        "ArrowMemoryError: malloc of size 8589934592 failed",
        (
            "SparkException: Total size of serialized results of 9 tasks (1,1 GiB) is bigger than "
            "spark.driver.maxResultSize (1024.0 MiB)"
        ),
    ],
    "KILLED": [
        "SparkException: " + EXITED + "Command exited with code 137",
        (
            "SparkException: "
            + EXITED
            + "The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM)."
        ),
        (
            "SparkException: "
            + EXITED
            + "Container killed by YARN for exceeding physical memory limits. 1.5 GB of 1.5 GB "
            "physical memory used. Consider boosting spark.executor.memoryOverhead."
        ),
        "Application application_1_2 failed 1 times due to AM Container exited with exitCode: 137",
        "Container [pid=1,containerID=c] is running 123B beyond the 'PHYSICAL' memory limit. Killing container.",
        "Container killed on request. Exit code is 137",
        "container status: Terminated, termination reason: OOMKilled",
        (
            "SparkException: "
            + EXITED
            + "Container from a bad node: c on host: h. Exit status: 137. Diagnostics: Killed "
            "by external signal"
        ),
        "SparkException: Python worker was killed by signal 9",
    ],
    "EXECUTOR_LOST": [
        "SparkException: " + EXITED + "Executor heartbeat timed out after 150000 ms",
        (
            "SparkException: "
            + EXITED
            + "Remote RPC client disassociated. Likely due to containers exceeding thresholds, "
            "or network issues. Check driver logs for WARN messages."
        ),
        "SparkException: " + EXITED + "worker lost: 10.0.0.4:40123 got disassociated",
        "SparkException: " + EXITED + "Executor decommission: spot instance is taken back",
        "SparkException: " + LOST + "FetchFailed(BlockManagerId(1, 10.0.0.4, 7337, None), shuffleId=0, mapIndex=0)",
        "MetadataFetchFailedException: Missing an output location for shuffle 0 partition 1",
        "FetchFailedException: Failed to connect to /10.0.0.4:7337",
        "SparkException: Job 3 cancelled because SparkContext was shut down",
        "IllegalStateException: Cannot call methods on a stopped SparkContext.",
        "Max number of executor failures (4) reached",
    ],
    "PYTHON_WORKER": [
        "SparkException: Python worker exited unexpectedly (crashed)",
        "SparkException: " + LOST + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "SparkException: Python worker failed to connect back.",
        'IOException: Cannot run program "python3.12": error=2, No such file or directory',
        "Fatal Python error: Segmentation fault",
        "SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
        "SparkException: Python worker process terminated due to: hung",
        (
            "SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout. No port "
            "number in pyspark.daemon's stdout"
        ),
    ],
    "NO_FOLDER": [
        "IOException: Mkdirs failed to create file:/lake/shop/orders/data (exists=false, cwd=file:/)",
        "IOException: Cannot create directory /lake/shop",
    ],
    "CREDENTIALS": [
        "NotAuthorizedException: Not authorized: Credential expired",
        'PSQLException: FATAL: password authentication failed for user "lake"',
        'PSQLException: FATAL: database "lake" does not exist',
        'PSQLException: FATAL: no pg_hba.conf entry for host "10.0.0.4", user "lake", database "lake"',
        "SQLException: Access denied for user 'lake'@'10.0.0.4' (using password: YES)",
        "S3Exception: The AWS Access Key Id you provided does not exist in our records. (InvalidAccessKeyId)",
        "SdkClientException: Unable to load credentials from any of the providers in the chain",
        "TTransportException: GSS initiate failed",
        "UnrecognizedClientException: The security token included in the request is invalid",
    ],
    "TLS": [
        "PSQLException: The server does not support SSL.",
        "SQLNonTransientConnectionException: Trying to connect with ssl, but ssl not enabled in the server",
        'OperationalError: connection to server at "db" failed: server does not support SSL, but SSL was required',
        'OperationalError: connection to server at "db" failed: root certificate file "/root.crt" does not exist',
        'OperationalError: could not read root certificate file "/root.crt": no certificate or crl found',
        "PSQLException: Could not open SSL root certificate file /root.crt.",
        "PSQLException: Loading the SSL root certificate /root.crt into a TrustManager failed.",
        'OperationalError: server certificate for "lake" does not match host name "db"',
        "PSQLException: The hostname db could not be verified by hostnameverifier PgjdbcHostnameVerifier.",
        "OperationalError: SSL error: certificate verify failed",
        "SSLHandshakeException: PKIX path building failed: unable to find valid certification path to requested target",
        "SSLPeerUnverifiedException: Certificate for <db> doesn't match any of the subject alternative names: [lake]",
        "SSLHandshakeException: PKIX path validation failed: java.security.cert.CertPathValidatorException: expired",
        "SSLHandshakeException: No subject alternative names matching IP address 10.0.0.4 found",
        "SSLHandshakeException: No subject alternative DNS name matching db found.",
        "SSLHandshakeException: No subject alternative names present",
        "SSLHandshakeException: No name matching db found",
        'OperationalError: sslmode value "require" invalid when SSL support is not compiled in',
        "OSError: When getting it: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 60, SSL peer",
        "OSError: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 77, Problem with the SSL CA cert",
        "SSLError: SSL validation failed for https://glue [SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired",
        "OSError: Could not find a suitable TLS CA certificate bundle, invalid path: /ca.pem",
        "OSError: Could not find the TLS certificate file, invalid path: /client.pem",
    ],
    "ACCESS_DENIED": [
        "FileNotFoundException: /lake/shop/a.parquet (Permission denied)",
        "PermissionError: [Errno 13] Permission denied: '/lake'",
        "IOException: Read-only file system",
        'AccessControlException: Permission denied: user=airflow, access=WRITE, inode="/lake":hdfs:hdfs:drwxr-xr-x',
        "AccessDeniedException: /lake/shop",
        "S3Exception: Access Denied (Service: S3, Status Code: 403, Request ID: 1)",
        "AccessDeniedException: s3a://lake/shop: PUT 0-byte object: AccessDenied",
        "GoogleJsonResponseException: lake@x does not have storage.objects.create access to the object",
        'AbfsRestOperationException: Operation failed: "This request is not authorized to perform this operation."',
        "PSQLException: ERROR: permission denied for table iceberg_tables",
        "PSQLException: ERROR: must be owner of table iceberg_tables",
        "SQLiteException: [SQLITE_READONLY] Attempt to write a readonly database",
        "SQLSyntaxErrorException: UPDATE command denied to user 'lake'@'10.0.0.4' for table 'iceberg_tables'",
        "ForbiddenException: Forbidden: not allowed to commit",
        "GlueException: User: arn is not authorized to perform: glue:UpdateTable (Service: Glue, Status Code: 400)",
    ],
    "VALUE": [
        "SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' of the type STRING cannot be cast to INT",
        "SparkArithmeticException: [CAST_OVERFLOW_IN_TABLE_INSERT] Fail to assign a value of DECIMAL(6,2) type to n",
        "SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0",
        (
            "SparkException: "
            + LOST
            + "org.apache.spark.SparkArithmeticException: [NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION]  1999.98 cannot "
            "be represented as Decimal(5, 2).\n\tat org.apache.spark.X"
        ),
        "SparkRuntimeException: [USER_RAISED_EXCEPTION] no such country SQLSTATE: P0001",
        "SparkRuntimeException: [HLL_INVALID_INPUT_SKETCH_BUFFER] Invalid call to `x`. SQLSTATE: 22546",
        "SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected: {1.",
        "SparkException: [AVRO_INCOMPATIBLE_READ_TYPE] Cannot convert Avro `n` to SQL `n`. SQLSTATE: 22KD3",
        "IllegalArgumentException: requirement failed: Illegal sequence boundaries: 1 to 2 by 0",
        "UnknownFormatConversionException: Conversion = 'q'",
        "SparkException: " + LOST + "java.lang.RuntimeException: Error loading expression 'a'\n\tat org.apache.spark.X",
        "SparkException: " + LOST + "java.util.regex.PatternSyntaxException: Unclosed group near index 3\n(x",
        "ArithmeticException: integer overflow",
        "SparkException: " + LOST + "java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang.Math.X",
        "TextParsingException: java.lang.ArrayIndexOutOfBoundsException - Index 20480 out of bounds for length 20480",
        "TextParsingException: Length of parsed input (5) exceeds the maximum number of characters defined in your",
    ],
}
OF_A_CATALOG = [
    "PSQLException: Connection to 127.0.0.1:5432 refused. Check that the hostname and port are correct",
    "ConnectException: Connection refused",
    "PSQLException: FATAL: terminating connection due to administrator command",
    "PSQLException: This connection has been closed.",
    "PSQLException: An I/O error occurred while sending to the backend.",
    "PSQLException: FATAL: the database system is starting up",
    "PSQLException: FATAL: sorry, too many clients already",
    "PSQLException: ERROR: cannot execute UPDATE in a read-only transaction",
    "SQLNonTransientConnectionException: Could not create connection to database server.",
    "CommunicationsException: Communications link failure",
    "SQLiteException: [SQLITE_BUSY] The database file is locked (database is locked)",
    "SQLiteException: [SQLITE_CANTOPEN] Unable to open the database file (unable to open database file)",
    "SQLiteException: [SQLITE_IOERR] Some kind of disk I/O error occurred (disk I/O error)",
    "SQLiteException: [SQLITE_NOTADB] File opened that is not a database file (file is not a database)",
    "HttpHostConnectException: Connect to http://127.0.0.1:8181 [/127.0.0.1] failed: Connection refused",
    "NoHttpResponseException: 127.0.0.1:8181 failed to respond",
    "ServiceUnavailableException: Service unavailable: 503",
    "ServiceFailureException: Server error: InternalServerError: down",
    "SocketTimeoutException: Read timed out",
    "UnknownHostException: lake.internal",
    "TTransportException: java.net.ConnectException: Connection refused",
    "RuntimeMetaException: Failed to connect to Hive Metastore",
    "MetaException: Could not connect to meta store using any of the URIs provided",
    "WaitingForLockException: Waiting for lock on table shop.orders",
    "SdkClientException: Unable to execute HTTP request: Connect to glue.eu-west-1.amazonaws.com failed",
    "ThrottlingException: Rate exceeded",
    "GlueException: Internal service error (Service: Glue, Status Code: 500)",
    "SSLHandshakeException: Remote host terminated the handshake",
]
OF_NONE = [
    "IOException: reset\n\tat org.apache.hadoop.fs.s3a.S3AFileSystem.open(S3AFileSystem.java:1)",
    "NoClassDefFoundError: Could not initialize class org.apache.iceberg.aws.X",
    "ClassNotFoundException: com.acme.Udf",
    "IllegalArgumentException: no",
    "AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table cannot be found",
    "SparkRuntimeException: [NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field",
    "SparkRuntimeException: [USER_RAISED_EXCEPTION] changed meanwhile: Spark read a file that is not in listing",
    "SparkIllegalArgumentException: [INVALID_CONF_VALUE.TIME_ZONE] The value 'x' is invalid. SQLSTATE: 22022",
    "AnalysisException: [UNRESOLVED_TABLE_PATH] Storage path for table t cannot be resolved. SQLSTATE: 22KD1",
    "SparkException: [CANNOT_USE_KRYO] Cannot load Kryo serialization codec. SQLSTATE: 22KD3",
    # The parser of CSV says so of a store whose connection ends amid a file.
    "TextParsingException: java.lang.IllegalStateException - Error reading from input\nInternal state when error",
    "OSError: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 6, Could not resolve hostname",
    "OSError: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was reached",
    "ConnectException: Connection refused",
    "SparkException: "
    + LOST
    + "java.lang.IllegalStateException: no\n\tat java.security.AccessController.doPrivileged()",
]
NOT_RETRIED = {
    "VALUE": BadInputError,
    "ACCESS_DENIED": AccessDeniedError,
    **dict.fromkeys(("CREDENTIALS", "TLS"), InvalidConnectionError),
    **dict.fromkeys(("NO_SPARK", "JAVA", "NO_JARS", "NO_CONNECTOR", "NO_PROTOBUF"), UnsupportedError),
}


@pytest.mark.parametrize(("kind", "said"), [(kind, said) for kind, all_said in SAID.items() for said in all_said])
def test_what_is_said_tells_the_cause_and_whether_a_retry_may_help(kind: str, said: str) -> None:
    cause = cause_in(["IllegalStateException: outer", said])
    assert cause is not None
    assert cause.kind is getattr(failure_causes, kind)
    error = NOT_RETRIED.get(kind, JobFailedError)
    assert cause.kind.error is error
    assert cause.sentence().startswith(f"{cause.kind.name}: ")
    assert "\n" not in cause.sentence()
    assert len(cause.sentence()) < 700


@pytest.mark.parametrize("said", OF_A_CATALOG)
def test_the_end_of_a_catalog_is_told_where_a_client_of_it_says_so(said: str) -> None:
    cause = cause_in([said], is_of_a_catalog=True)
    assert cause is not None
    assert cause.kind is failure_causes.CATALOG
    assert cause.kind.error is CatalogUnavailableError
    assert cause_in([said]) is None or cause_in([said]) == cause


@pytest.mark.parametrize("said", OF_NONE)
def test_another_failure_has_no_known_cause(said: str) -> None:
    assert cause_in([said]) is None
