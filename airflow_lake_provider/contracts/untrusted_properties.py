"""Judge properties that a REST server or a table says: few count, none may choose code or send keys elsewhere.

Whoever runs a server, or may alter a table, chooses neither code nor where the connection's credentials go. What is
obeyed is a list; all else is ignored by PyIceberg, and refused before Spark, which would follow it. The page
``docs/reference/trust.md`` has the list, and the servers that it is made for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

# Say how a server is asked, or how a store is read and written; none of them says where, or by whose code.
HARMLESS = frozenset(
    {
        *("prefix", "warehouse", "namespace-separator", "rest-page-size", "view-endpoints-supported"),
        *(
            "snapshot-loading-mode",
            "scan-planning-mode",
            "rest-metrics-reporting-enabled",
            "rest-scan-planning-enabled",
        ),
        *("cache-enabled", "cache.case-sensitive", "cache.expiration-interval-ms", "clients", "unique-table-location"),
        *("app-id", "app-name", "auth.session-timeout-ms", "expiration-time", "idempotency-key-lifetime"),
        *("token", "token-expires-in-ms", "token-refresh-enabled", "token-exchange-enabled", "region"),
        *("s3.path-style-access", "s3.force-virtual-addressing", "s3.cross-region-access-enabled", "s3.resolve-region"),
        *("s3.remote-signing-enabled", "s3.use-arn-region-enabled", "s3.dualstack-enabled", "s3.acceleration-enabled"),
        *("s3.checksum-enabled", "s3.chunked-encoding-enabled", "s3.preload-client-enabled", "s3.delete-enabled"),
        "s3.session-token-expires-at-ms",
        *("s3.server-side-encryption", "s3.sse-kms-key-id", "s3.sse.type", "s3.sse.key"),
        *("client.refresh-credentials-enabled", "client.legacy-md5-plugin-enabled", "gcs.no-auth"),
        *("gcs.project-id", "gcs.user-project", "gcs.requester-pays", "gcs.delete.batch-size"),
        *("gcs.oauth2.token-expires-at", "gcs.oauth2.refresh-credentials-enabled", "gcs.analytics-core.enabled"),
        *("adls.read.block-size-bytes", "adls.write.block-size-bytes", "adls.refresh-credentials-enabled"),
    }
)
HARMLESS_PREFIXES = (
    *("rest-table-cache.", "rest-scan-planning.", "io.manifest.cache", "urn:ietf:params:oauth:token-type:"),
    *("s3.delete.", "s3.write.", "s3.multipart.", "s3.retry.", "s3.directory-bucket."),
    *("gcs.channel.", "adls.sas-token-expires-at-ms."),
)
# How long a server lets us wait. A client of S3 keeps its whole process until then.
WAITS = {
    **dict.fromkeys(("s3.connect-timeout", "s3.request-timeout"), 60),
    **dict.fromkeys(("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"), 600_000),
    "rest.client.max-retries": 20,
}
REGIONS = ("client.region", "s3.region")
# Asked with the catalog's own token, so they have to be the catalog itself. A path is one on the catalog.
OF_THE_CATALOG = (
    *("uri", "s3.signer.uri", "s3.signer.endpoint", "signer.uri", "signer.endpoint", "rest.remote-signing.endpoint"),
    *("client.refresh-credentials-endpoint", "gcs.oauth2.refresh-credentials-endpoint"),
    "adls.refresh-credentials-endpoint",
)
_PYICEBERG_IO = ("pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO")
_ICEBERG = "org.apache.iceberg."
FILE_IOS = frozenset(
    f"{_ICEBERG}{name}"
    for name in (
        *("aws.s3.S3FileIO", "gcp.gcs.GCSFileIO", "azure.adlsv2.ADLSFileIO", "aliyun.oss.OSSFileIO"),
        *("dell.ecs.EcsFileIO", "hadoop.HadoopFileIO", "io.ResolvingFileIO"),
    )
)
# Code of PyIceberg and Iceberg, which servers name by habit.
CODE: dict[str, frozenset[str]] = {
    "io-impl": FILE_IOS,
    "py-io-impl": frozenset(_PYICEBERG_IO),
    "s3.signer": frozenset({"S3V4RestSigner"}),
    "metrics-reporter-impl": frozenset({f"{_ICEBERG}metrics.LoggingMetricsReporter"}),
    "header.X-Iceberg-Access-Delegation": frozenset({"vended-credentials", "remote-signing"}),
}
_REGION = re.compile(r"[A-Za-z0-9-]{1,63}")
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,7})?")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]*")
_MICROSOFT = re.compile(
    r"(?i)[a-z0-9.-]+\.(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)|fabric\.microsoft\.com)"
)


@dataclass(frozen=True)
class Store:
    """Properties of one kind of object store that go together.

    :param vended: of which one whole group has to come, before an endpoint that comes with it is accepted.
    :param also: what may come with them.
    :param endpoints: where files are.
    :param own: every property of the connection that holds or chooses credentials for the store.
    """

    vended: tuple[tuple[str, ...], ...]
    also: tuple[str, ...]
    endpoints: tuple[str, ...]
    own: tuple[str, ...]

    def has_vended(self, answer: Mapping[str, Any]) -> bool:
        """Tell whether an answer holds credentials that are enough by themselves."""
        return any(
            all(any(_is(name, each) and answer[name] for name in answer) for each in group) for group in self.vended
        )

    def knows(self, name: str, of: tuple[str, ...]) -> bool:
        """Tell whether a property is one of a list; a name that ends with a dot stands for all that begin so."""
        return any(_is(name, each) for each in of)

    @property
    def credentials(self) -> tuple[str, ...]:
        """Names that a server may vend."""
        return (*(name for group in self.vended for name in group), *self.also)


STORES = {
    "s3": Store(
        vended=(("s3.access-key-id", "s3.secret-access-key"),),
        also=("s3.session-token",),
        endpoints=("s3.endpoint",),
        own=(
            *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.profile-name", "s3.role-arn"),
            *("s3.role-session-name", "client.access-key-id", "client.secret-access-key", "client.session-token"),
            *("client.profile-name", "client.role-arn", "client.role-session-name", "client.credentials-provider"),
            *("client.factory", "client.assume-role.", "s3.client-factory-impl"),
        ),
    ),
    "gcs": Store(
        vended=(("gcs.oauth2.token",),),
        also=(),
        endpoints=("gcs.service.host",),
        own=("gcs.oauth2.token", "gcs.session-kwargs", "gcs.impersonate.", "gcs.client-lib-token"),
    ),
    "adls": Store(
        vended=(("adls.sas-token.",), ("adls.sas-token",)),
        also=("adls.account-name",),
        endpoints=("adls.account-host", "adls.connection-string."),
        own=(
            *(
                "adls.account-key",
                "adls.sas-token",
                "adls.sas-token.",
                "adls.token",
                "adls.credential",
                "adls.client-id",
            ),
            *("adls.client-secret", "adls.tenant-id", "adls.connection-string", "adls.connection-string."),
            *("adls.auth.shared-key.", "adls.token-credential-provider", "adls.token-credential-provider."),
        ),
    ),
}


@dataclass(frozen=True)
class Verdict:
    """Outcome of an answer.

    :param accepted: properties that count.
    :param ignored: names of those that do not.
    :param withheld: names of the connection's own properties that must not be used together with them.
    """

    accepted: dict[str, str]
    ignored: tuple[str, ...]
    withheld: frozenset[str]

    def over(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the connection's properties as this answer leaves them."""
        return {name: value for name, value in own.items() if name not in self.withheld} | self.accepted


def judge(answer: Mapping[str, Any], own: Mapping[str, Any], uri: str) -> Verdict:
    """Tell what of an answer counts.

    :param answer: configuration of the server, and of the table with its credentials, in one.
    :param own: the connection's properties.
    :param uri: of the catalog.
    """
    foreign = {name: value for name, value in answer.items() if own.get(name) != value}
    accepted = {name: str(value) for name, value in foreign.items() if _is_accepted(name, value, answer, own, uri)}
    alone = [store for store in STORES.values() if store.has_vended(accepted)]
    if not alone and "s3.endpoint" in accepted:
        # The catalog signs each request, and no key of anybody is used here.
        alone, accepted["s3.anonymous"] = [STORES["s3"]], "true"
    withheld = {name for name in own if any(store.knows(name, store.own) for store in alone)}
    return Verdict(accepted, tuple(sorted(foreign.keys() - accepted.keys())), frozenset(withheld - accepted.keys()))


def is_endpoint(name: str) -> bool:
    """Tell whether a property says where the files of a store are."""
    return any(store.knows(name, store.endpoints) for store in STORES.values())


def of_table_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the table properties with which files may be opened: the region, and nothing else.

    :param properties: anybody who may alter the table has set them.
    """
    return {name: value for name, value in properties.items() if name in REGIONS and _is_region(value)}


def _is_accepted(name: str, value: object, answer: Mapping[str, Any], own: Mapping[str, Any], uri: str) -> bool:
    if isinstance(value, (bool, int)):
        value = str(value).lower()
    # PyIceberg makes objects of nested answers, such as one that says how to sign in.
    if not isinstance(value, str) or not _TEXT.fullmatch(value):
        return False
    for kind, store in STORES.items():
        if store.knows(name, store.endpoints):
            return _is_endpoint_accepted(kind, name, value, answer, own)
        if store.knows(name, store.credentials):
            return store.has_vended(answer)
    rule = _rule(name, own)
    return rule is not None and rule(value, uri)


def _rule(name: str, own: Mapping[str, Any]) -> Callable[[str, str], bool] | None:
    if name in REGIONS:
        return lambda value, _: _is_region(value)
    if name in WAITS:
        return lambda value, _: _NUMBER.fullmatch(value) is not None and float(value) <= WAITS[name]
    if name in OF_THE_CATALOG:
        return is_same_origin
    if name == "oauth2-server-uri":
        # Where the connection names one, a secret of that one would go to the catalog.
        return None if name in own else is_same_origin
    if name in CODE:
        return lambda value, _: value in CODE[name]
    return (lambda *_: True) if name in HARMLESS or name.startswith(HARMLESS_PREFIXES) else None


def _is_endpoint_accepted(kind: str, name: str, value: str, answer: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    if kind == "adls" and not _MICROSOFT.fullmatch(re.sub(r"(?i)^https?://|(?<!/)/++$", "", value)):
        return False
    if STORES[kind].has_vended(answer):
        return True
    signs = str(answer.get("s3.remote-signing-enabled", "")).lower() == "true"
    return kind == "s3" and signs and name not in own


def _is_region(value: object) -> bool:
    # AWS's clients make a host name of it.
    return isinstance(value, str) and _REGION.fullmatch(value) is not None


def _is(name: str, listed: str) -> bool:
    return name.startswith(listed) if listed.endswith(".") else name == listed


# Families of which Iceberg-Java reads some property. What begins otherwise nobody reads.
_READ_BY_JAVA = re.compile(
    r"(?i)^(?:s3|gcs|gcp|adls|azure|oss|aliyun|ecs|client|rest|http-client|hadoop|fs|dfs|jdbc|header|glue|dynamodb|lock|"
    r"lakeformation|kms|encryption|auth|ssl|hive|metastore|signer|write|catalog|io)\."
    r"|(?:impl|class|factory)$|^(?:uri|oauth2-server-uri|credential|scope|audience|resource|type|user|auth)$"
)
_READ_BY_PYICEBERG = ("py-", "s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.", "DEFAULT_", "buffer-size", "ssl")
_TABLE_SETTINGS = re.compile(r"(?:table|view)-(?:default|override)\.(.*)", re.DOTALL)
_NAMES_CODE = re.compile(r"(?i)(?:^|[.\-_])(?:impl|class|classes|factory|provider)$|^(?:fs|hadoop|dfs)\.")


def is_read(name: str) -> bool:
    """Tell whether somebody would have followed a property, so that it is worth a word that it was ignored."""
    return name.startswith(_READ_BY_PYICEBERG) or _READ_BY_JAVA.search(name) is not None


def objections_of_spark(
    answer: Mapping[str, Any], own: Mapping[str, Any], uri: str, *, awaits_credentials: bool = False
) -> tuple[str, ...]:
    """Return names of properties that Iceberg-Java would follow, and must not.

    :param answer: as in :func:`judge`, without defaults that the connection overrides.
    :param own: the connection's properties as Iceberg-Java has them.
    :param uri: of the catalog.
    :param awaits_credentials: those of a table may come yet, for the endpoint of the answer.
    """
    foreign = {name: value for name, value in answer.items() if own.get(name) != value}
    return tuple(sorted(name for name in foreign if _is_objected(name, answer, own, uri, awaits_credentials)))


def _is_objected(name: str, answer: Mapping[str, Any], own: Mapping[str, Any], uri: str, awaits: bool) -> bool:
    if setting := _TABLE_SETTINGS.fullmatch(name):
        return _NAMES_CODE.search(setting.group(1)) is not None
    store = next((each for each in STORES.values() if each.knows(name, each.endpoints)), None)
    if store is not None and (awaits or store.has_vended(answer)):
        # Java lays an answer over the connection: what it does not cover of the connection's keys goes along.
        return any(_left(store, answer, own))
    if _is_accepted(name, answer[name], answer, own, uri) or name.startswith("py-"):
        return False
    return _READ_BY_JAVA.search(name) is not None


def _left(store: Store, answer: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    return (name for name in own if store.knows(name, store.own) and answer.get(name) in (None, own[name]))


# Iceberg ends the names of classes in "impl", Hadoop, Parquet and ORC theirs in "class" and the like.
_CLASS = re.compile(r"(^|[.\-_])(impl|class|classes|factory|serializations|codecs)$|[.\-_]provider$")
_HADOOP = ("fs.", "hadoop.", "dfs.", "ipc.", "viewfs.", "io.file.", "io.seqfile.", "net.topology.", "mapreduce.job.")
_KEYS = ("parquet.crypto.", "parquet.encryption.", "orc.key.", "orc.encrypt", "orc.mask", "client.credentials-provider")
# PyIceberg reads them and Java does not.
_OF_PYTHON = ("py-", "write.py-")


def code_properties(properties: Mapping[str, str], *, of_python: bool = False) -> dict[str, str]:
    """Return the properties that choose code or a file system, by name.

    :param of_python: also those that only PyIceberg reads.
    """
    return {
        name: str(value)
        for name, value in sorted(properties.items())
        if _chooses_code(name.strip().lower()) and (of_python or not name.strip().lower().startswith(_OF_PYTHON))
    }


def untrusted_code(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that choose a driver's code, and that the catalog does not give new tables itself.

    :param own: of the catalog, by Iceberg's names; ``table-default.*`` and ``table-override.*`` are trusted.
    """
    given = ("table-default.", "table-override.")
    code = code_properties(properties).items()
    return {name: value for name, value in code if value not in (own.get(f"{prefix}{name}") for prefix in given)}


def _chooses_code(name: str) -> bool:
    return name.startswith((*_HADOOP, *_KEYS)) or _CLASS.search(name) is not None


_PORTS = {"http": 80, "https": 443}


def origin(address: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port; None for what is no address of the web."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc or "\\" in address:
        return None
    return parts.scheme, parts.hostname.lower(), port or _PORTS[parts.scheme]


def is_same_origin(address: str, catalog: str) -> bool:
    """Tell whether an address is one of the catalog's server; a path is.

    :param address: named by somebody else.
    :param catalog: address of the catalog.
    """
    if address != address.strip() or "\\" in address or address.startswith("//"):
        return False
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", address):
        return origin(address) is not None and origin(address) == origin(catalog)
    return True


def may_follow(redirect: str, asked: str) -> bool:
    """Tell whether a redirect leads to the server that was asked, or to the same host by TLS.

    :param redirect: absolute address.
    :param asked: the one that answered so.
    """
    there, here = origin(redirect), origin(asked)
    if there is None or here is None:
        return False
    return there == here or (there == ("https", here[1], 443) and here[::2] == ("http", 80))
