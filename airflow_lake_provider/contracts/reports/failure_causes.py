"""Causes of failures, recognised by their messages: a full disk, memory, rights, a value, a process that ended.

Of a driver's exception both its class and its message count; of a driver that died, lines of its log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    CatalogUnavailableError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)

_LONGEST = 300
# How a message begins by which SQL of this package ends a job, where the next try may see something else.
CHANGED_MEANWHILE = "changed meanwhile: "


@dataclass(frozen=True)
class FailureKind:
    """One kind of cause.

    :param name: how a message names it, at its beginning.
    :param remedy: what to do.
    :param error: its type says whether a retry may help.
    :param words: regular expressions of what is said of it.
    """

    name: str
    remedy: str
    words: tuple[str, ...] = ()
    error: type[LakeProviderError] = JobFailedError

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The words, compiled."""
        return tuple(map(re.compile, self.words))

    def find(self, text: str) -> str | None:
        """Return the line of ``text`` that says it; None where none does."""
        first = next((match for pattern in self.patterns if (match := pattern.search(text))), None)
        return None if first is None else _line_around(text, first.start())


@dataclass(frozen=True)
class FailureCause:
    """The cause of one failure.

    :param message: the line that says so.
    """

    kind: FailureKind
    message: str

    def sentence(self) -> str:
        """Return the cause, the message and the remedy as a sentence."""
        return f"{self.kind.name}: {self.message.rstrip('.')}. {self.kind.remedy}"


# Of the first hour: Spark, Java and jars. A class that is missing now is missing at the next try.
NO_SPARK = FailureKind(
    "there is no Spark to submit with",
    "Install pyspark beside Airflow, or name the folder of a Spark by SPARK_HOME, or its program by the extra "
    "spark-binary of the Spark connection",
    (
        r"No such file or directory: '[^']{0,300}spark\d?-submit'",
        r"spark-class: No such file or directory",
        r"Failed to find Spark jars directory",
    ),
    UnsupportedError,
)
JAVA = FailureKind(
    "Java is missing or too old",
    "Install Java 17 or newer where the driver runs, and let JAVA_HOME name its folder there",
    (
        r"JAVA_HOME is not set",
        r"spark-class: line \d{1,5}: [^\s:]{1,300}java: ",
        r"UnsupportedClassVersionError",
    ),
    UnsupportedError,
)
NO_PACKAGES = FailureKind(
    "Spark could not fetch its packages",
    "Let the machine that submits reach a Maven repository, or put the jars into a folder that [lake] spark_jars names",
    (r"unresolved dependency: ", r"\[download failed: "),
)
NO_JARS = FailureKind(
    "a jar is missing",
    "Bring the Iceberg runtime, the driver of a SQL catalog and the bundle of the cloud: [lake] spark_jars says by "
    "which way, and 'provided' means that Spark has them",
    (
        (
            r"(?:ClassNotFoundException|NoClassDefFoundError): (?:Class )?"
            r"(?:org[./]apache[./]iceberg|software[./]amazon[./]awssdk|com[./]google[./]cloud|com[./]azure)[./]"
        ),
        r"Cannot find catalog plugin class",
        r"No suitable driver found for jdbc:",
    ),
    UnsupportedError,
)
NO_CONNECTOR = FailureKind(
    "Spark has no connector for the scheme or the format of a file",
    "Of files on S3 write s3a://, and give packages='org.apache.hadoop:hadoop-aws:<version of Spark's Hadoop>' or that "
    "jar; of other stores give the connector of theirs. For Avro give org.apache.spark:spark-avro_2.13:<version of "
    "Spark>, for Protobuf spark-protobuf_2.13",
    (
        r"ClassNotFoundException: (?:Class )?[\w.$]{0,100}(?:S3A|AzureBlob|GoogleHadoop)FileSystem\b",
        r"No FileSystem for scheme",
        r"\[(?:AVRO|PROTOBUF)_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE\b",
    ),
    UnsupportedError,
)
NO_PROTOBUF = FailureKind(
    "executors do not load Google's protobuf",
    "Install protobuf 6.31 or later in the Python of driver and executors",
    (r"ModuleNotFoundError: No module named 'google(?:\.protobuf)?'",),
    UnsupportedError,
)
# In these three it is a driver's, an executor's or a database's; what was said is the same.
DISK_FULL = FailureKind(
    "no space is left on a disk",
    "Free space or raise the quota: the next try needs it as well",
    (
        r"(?i)no space left on device",
        r"(?i)disk quota exceeded",
        r"(?:IOException: |Errno 27\] )File too large",
        r"(?i)not enough space on (?:the )?(?:disk|device)",
        r"(?:DS|NS|StorageType|ByStorageType)QuotaExceededException",
        r"could only be (?:written|replicated) to 0 ",
        r"\b(?:XMinioStorageFull|InsufficientStorage|QuotaExceeded|AccountStorageQuotaExceeded)\b",
        r"(?i)status(?: code)?:? 507\b|\b507 Insufficient Storage",
        r"SQLITE_FULL|database or disk is full",
        r"Got error 28 from storage engine|The table '[^']*' is full",
    ),
)
SCRATCH_FULL = FailureKind(
    "no space is left on the disk of Spark's own files",
    "Free space there, or point spark.local.dir (SPARK_LOCAL_DIRS on a cluster) to a larger disk",
)
SCRATCH_GONE = FailureKind(
    "Spark cannot use the folder of its own files",
    "Look whether spark.local.dir is full, may be written, and is not cleaned while jobs run",
    (
        r"Failed to create (?:a temp directory|local dir|directory)",
        r"(?:FileNotFound|NoSuchFile)Exception: \S*(?:blockmgr|spark|executor)-[0-9a-f-]{36}",
    ),
)
HEAP = FailureKind(
    "memory ran out",
    "Give more: spark.driver.memory on a local master, spark.executor.memory on a cluster, or "
    "spark.driver.maxResultSize where the message names it; or a smaller batch",
    (
        r"OutOfMemoryError",
        r"GC overhead limit exceeded",
        r"UNABLE_TO_ACQUIRE_MEMORY|Unable to acquire \d+ bytes of memory",
        r"There is insufficient memory for the Java Runtime Environment",
        r"Could not reserve enough space for",
        r"\bMemoryError\b|ArrowMemoryError|(?:malloc|realloc) of size \d+ failed",
        r"is bigger than spark\.driver\.maxResultSize",
        r"exited with(?: exit)? code 52\b",
    ),
)
KILLED = FailureKind(
    "a process was killed with signal 9, probably for its memory",
    "Look at the kernel's log (dmesg) or at the container's limit; give the container, or "
    "spark.executor.memoryOverhead, more, or Spark less",
    (
        r"OOMKilled",
        r"(?i)killed by YARN for exceeding",
        r"(?i)running (?:\S+ )?beyond (?:the )?'?(?:physical|virtual)",
        r"(?i)exit(?:ed)?(?: with| ?code| ?status)*(?: is|:)? ?(?:137|-9)\b",
        r"\bSIGKILL\b|Killed by external signal",
        r"(?i)killed by signal 9",
    ),
)
EXECUTOR_LOST = FailureKind(
    "an executor was lost",
    "Look at its log and at its machine; a retry gets another one",
    (
        r"ExecutorLostFailure",
        r"\bMetadataFetchFailedException|\bFetchFailed(?:Exception)?\b",
        r"Missing an output location for shuffle",
        r"Executor heartbeat timed out",
        r"Remote RPC client disassociated",
        r"(?i)\b(?:executor|worker|slave) (?:process )?(?:was )?lost\b",
        r"Max number of executor failures",
        r"(?i)executor (?:is )?decommission",
        r"SparkContext was shut down|stopped SparkContext",
    ),
)
PYTHON_WORKER = FailureKind(
    "a Python process of Spark ended",
    "Look above for its own traceback; where there is none, its memory may have run out",
    (
        r"Python worker exited unexpectedly",
        r"Python worker failed to connect back",
        r"Python worker (?:process )?(?:was )?(?:terminated|crashed|hung)",
        r"(?i)timed? ?out (?:while )?waiting for the Python worker",
        r"Cannot run program \"[^\"]*python",
        r"Fatal Python error",
        r"Python daemon (?:failed|exited)|No port number in .{1,100} stdout",
        r"PythonWorkerException|PYTHON_WORKER_\w+",
    ),
)
JVM_GONE = FailureKind(
    "the driver's JVM is gone",
    "It was killed, or crashed: look at the end of its log, and at the kernel's (dmesg)",
    (
        r"Py4JNetworkError",
        r"Answer from Java side is empty",
        r"Error while (?:sending|receiving|sending or receiving)\b",
        r"(?:ConnectionRefused|ConnectionReset|BrokenPipe|ConnectionAborted)Error",
        r"Java gateway process exited|JAVA_GATEWAY_EXITED",
        r"An error occurred while trying to connect to the Java server",
        r"A fatal error has been detected by the Java Runtime Environment",
        r"reentrant call inside",
    ),
)
ACCESS_DENIED = FailureKind(
    "access was denied",
    "Grant it to the user that the driver runs as, or to that of the connection; then clear the task",
    (
        r"(?i)permission denied|operation not permitted|\bEACCES\b",
        r"(?i)read-only file system|attempt to write a readonly database|SQLITE_READONLY",
        r"\bAccess(?:Denied|Control)(?:Exception)?\b|\bPermissionError\b",
        r"(?i)access denied|access is denied",
        r"(?i)status(?: code)?:? 403\b|\b403 Forbidden|ForbiddenException",
        r"(?i)must be owner of|command denied to user|does not have \S+ access|insufficient privileges",
        r"AuthorizationPermissionMismatch|AuthorizationFailure|not authorized to perform",
        r"SQLITE_PERM|SQLITE_AUTH",
    ),
    AccessDeniedError,
)
NO_FOLDER = FailureKind(
    "a folder cannot be made",
    "Look whether its disk is full or read-only, and whether the driver's user may write there",
    (r"Mkdirs failed to create|(?i:(?:cannot|failed to|unable to) create (?:the )?director)",),
)
CREDENTIALS = FailureKind(
    "the credentials were refused",
    "Repair the connection",
    (
        r"NotAuthorizedException|(?i:\b401 Unauthorized|status(?: code)?:? 401\b)",
        r"(?i)password authentication failed|no password was provided|role \"[^\"]*\" does not exist",
        r"InvalidAccessKeyId|SignatureDoesNotMatch|UnrecognizedClientException|InvalidSignatureException",
        r"(?i)unable to load credentials|no AWS credentials",
        r"(?i)access denied for user",
        r"(?i)database \"[^\"]*\" does not exist|unknown database",
        r"(?i)GSS initiate failed|SASL authentication failed|no pg_hba\.conf entry",
        r"\binvalid_client\b|\binvalid_grant\b",
    ),
    InvalidConnectionError,
)
TLS = FailureKind(
    "there is no encrypted connection that client and server trust",
    "Repair the connection, its sslmode or sslrootcert for example (ssl_mode of MySQL), the trust store of the client, "
    "or the server's certificate",
    (
        r"(?i)server does not support SSL|ssl not enabled in the server",
        r"(?i)root certificate file .{0,300}(?:does not exist|no certificate)",
        r"Could not open SSL root certificate file|Loading the SSL root certificate",
        r"server certificate for .{0,300} does not match host name|could not be verified by hostnameverifier",
        r"doesn't match any of the subject alternative names|CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        r"No (?:subject alternative (?:DNS )?names?|name) (?:matching|present)\b",
        r"PKIX path (?:building|validation) failed|invalid when SSL support is not compiled in",
        # Of curl: a certificate of the server, and files of the client.
        r"curlCode: (?:51|58|60|77|82)\b|Could not find (?:a suitable TLS CA|the TLS certificate|the TLS key)",
    ),
    InvalidConnectionError,
)
# Conditions of Spark that are of the values alone: the same rows and the same SQL end in it each time.
VALUE = FailureKind(
    "an expression failed on a value",
    "The same rows would fail again: repair them in the source, or the SQL or the options that take them. A job always "
    "runs in ANSI mode; try_cast, try_add and try_divide give NULL instead",
    (
        r"\[CAST_(?:INVALID_INPUT|OVERFLOW\w{0,20})\b|\[CONVERSION_INVALID_INPUT\b|\[INVALID_UTF8_STRING\b",
        r"\[NUMERIC_VALUE_OUT_OF_RANGE\b",
        r"\[(?:BINARY_|INTERVAL_)?ARITHMETIC_OVERFLOW\b|\[(?:INTERVAL_)?DIVIDED?_BY_ZERO\b|\[REMAINDER_BY_ZERO\b",
        r"\[CANNOT_PARSE_(?:TIMESTAMP|TIME|DECIMAL|INTERVAL)\b|\[DATETIME_(?:OVERFLOW|FIELD_OUT_OF_BOUNDS)\b",
        r"\[INVALID_(?:ARRAY_INDEX\w{0,20}|INDEX_OF_ZERO|VARIANT_CAST|URL)\b|\[(?:NULL|DUPLICATED)_MAP_KEY\b",
        r"\[(?:SCALAR|ROW)_SUBQUERY_TOO_MANY_ROWS\b|\[INVALID_(?:TIMEZONE|DATETIME_PATTERN)\b",
        r"\[INCONSISTENT_BEHAVIOR_CROSS_VERSION\b|\[INVALID_FORMAT\b",
        rf"\[USER_RAISED_EXCEPTION\] (?!{CHANGED_MEANWHILE})",
        r"\[(?:INVALID_PARAMETER_VALUE|MALFORMED_RECORD_IN_PARSING|COLLECTION_SIZE_LIMIT_EXCEEDED)\b",
        r"\[AVRO_INCOMPATIBLE_READ_TYPE\b",
        # All others of the class "data exception" of the SQL standard; but settings and data sources are no values.
        r"\bSQLSTATE: 22(?!022|KD)[0-9A-Z]{3}\b",
        r"Illegal sequence boundaries",
        r"\b(?:IllegalFormat\w{0,30}|UnknownFormatConversion|MissingFormatArgument|PatternSyntax)Exception\b",
        # Of intervals and long texts, of XPath, and of a line of CSV: Spark gives these no condition.
        r"\bArithmeticException: (?:integer|long) overflow|RuntimeException: Error loading expression '",
        # The parser says so of a store that ends a connection, too: "Error reading from input".
        r"\bTextParsingException: (?:java\.lang\.ArrayIndexOutOfBoundsException|Length of parsed input)\b",
    ),
    BadInputError,
)
# Only for what came out of a client of a catalog: a store says the same.
CATALOG = FailureKind(
    "the catalog did not answer",
    "See whether it runs and is reached from the driver; a retry is safe",
    (
        r"(?i)connection (?:to \S+ )?(?:was )?(?:refused|reset|closed|lost|failed|timed out|timeout|aborted)",
        r"(?:Connect|Socket|UnknownHost|NoRouteToHost|NoHttpResponse|HttpHostConnect)\w{0,30}Exception",
        r"SQL(?:NonTransient|Transient)ConnectionException|SQLTimeoutException|CommunicationsException",
        r"(?i)terminating connection|I/O error occurred|this connection has been closed|failed to connect",
        r"(?i)the database system is (?:starting up|shutting down|in recovery|not yet accepting)",
        r"(?i)too many (?:clients|connections)|remaining connection slots",
        r"(?i)read-only transaction|canceling statement due to",
        r"SQLITE_(?:BUSY|LOCKED|CANTOPEN|IOERR|NOTADB|PROTOCOL)|database is locked|unable to open database file",
        r"TTransportException|Could not connect to meta ?store|RuntimeMetaException|WaitingForLockException",
        r"Service(?:Unavailable|Failure)Exception|(?i:status(?: code)?:? (?:408|419|425|429|5\d\d)\b)",
        r"Unable to execute HTTP request|Throttling\w{0,30}Exception|InternalServiceException",
        r"AbortedException|RetryableException",
        r"SSL(?:Handshake|Peer\w{0,30}|)Exception|(?i:broken pipe|unexpected end of (?:file|stream))",
    ),
    CatalogUnavailableError,
)

# The first that something was said of. A lost executor says what killed it.
_KINDS = (
    *(NO_SPARK, JAVA, NO_PACKAGES, NO_CONNECTOR, NO_JARS, NO_PROTOBUF),
    *(DISK_FULL, SCRATCH_GONE, HEAP, KILLED, PYTHON_WORKER, EXECUTOR_LOST, CREDENTIALS, ACCESS_DENIED, NO_FOLDER),
    *(TLS, VALUE),
)
_OF_SPARKS_FILES = re.compile(
    r"org\.apache\.spark\.(?:storage|shuffle|util\.collection|io)\.|blockmgr-|/spark-[0-9a-f]{8}-"
)


def cause_in(texts: Iterable[str], *, is_of_a_catalog: bool = False) -> FailureCause | None:
    """Return the cause that a message of these texts names; None where none is recognised.

    :param texts: ``Class: message`` of each exception, innermost first; a message may hold a stack trace.
    :param is_of_a_catalog: whether the innermost exception came out of a client of a catalog.
    """
    texts = list(texts)
    for kind in (*_KINDS, *((CATALOG,) if is_of_a_catalog else ())):
        for text in texts:
            line = kind.find(text)
            if line is not None:
                is_scratch = kind is DISK_FULL and any(_OF_SPARKS_FILES.search(each) for each in texts)
                return FailureCause(SCRATCH_FULL if is_scratch else kind, line)
    return None


def _line_around(text: str, place: int) -> str:
    begin = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[begin : len(text) if end < 0 else end].strip()
    # What Spark says around an executor's error is longer than the error.
    if place - begin > _LONGEST // 2:
        line = f"...{text[place - _LONGEST // 2 : len(text) if end < 0 else end].strip()}"
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
