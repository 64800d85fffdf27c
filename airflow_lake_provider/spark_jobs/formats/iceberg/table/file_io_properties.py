"""Tell which properties of a ``FileIO`` a REST catalog may not say. Standard library only.

A server's answer becomes properties of the ``FileIO``, and wins over those of the session. Only the session may choose
code, say where credentials go, and who else may read what is written. See docs/reference/connection.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

_ICEBERG = "org.apache.iceberg."
FILE_IOS = frozenset(
    f"{_ICEBERG}{name}"
    for name in (
        "aws.s3.S3FileIO",
        "gcp.gcs.GCSFileIO",
        "azure.adlsv2.ADLSFileIO",
        "aliyun.oss.OSSFileIO",
        "dell.ecs.EcsFileIO",
        "hadoop.HadoopFileIO",
        "io.ResolvingFileIO",
    )
)
# Names that storage clients, the catalog's client or their builders read; what begins otherwise says nothing to them.
_READ = (
    *(
        "s3.",
        "client.",
        "http-client.",
        "gcs.",
        "gcp.",
        "adls.",
        "azure.",
        "oss.",
        "ecs.",
        "glue.",
        "dynamodb.",
        "kms.",
    ),
    *("rest.", "oauth2", "auth.", "signer.", "encryption.", "lakeformation.", "hadoop.", "fs.", "lock", "aliyun."),
)
_CODE = re.compile(r"(^|[.\-_])(impl|class|factory|provider|credential-provider\..*)$")
_HARMLESS = (
    *("s3.multipart.", "s3.retry.", "s3.delete.", "s3.delete-enabled", "s3.write.", "s3.sse.", "s3.checksum-enabled"),
    *("s3.path-style-access", "s3.region", "s3.use-arn-region-enabled", "s3.cross-region-access-enabled"),
    *("s3.acceleration-enabled", "s3.dualstack-enabled", "s3.chunked-encoding-enabled", "s3.preload-client-enabled"),
    *("s3.connect-timeout", "s3.request-timeout", "s3.remote-signing-enabled", "s3.signer", "s3.crt."),
    *("client.region", "client.refresh-credentials-enabled", "client.legacy-md5-plugin-enabled", "client.pool"),
    *("http-client.type", "http-client.apache.", "http-client.urlconnection."),
    *("gcs.project-id", "gcs.user-project", "gcs.channel.", "gcs.delete.", "gcs.analytics-core.enabled"),
    *("gcs.oauth2.token-expires-at", "gcs.oauth2.refresh-credentials-enabled"),
    *("adls.read.", "adls.write.", "adls.sas-token-expires-at-ms", "adls.refresh-credentials-enabled"),
    *("rest.client.max-retries", "rest.client.max-connections", "rest.client.connections-per-route"),
    *("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms", "rest.client.user-agent"),
    *("rest.signing-region", "rest.signing-name", "rest.remote-signing.config"),
)
_VENDED = (
    *("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "gcs.oauth2.token", "adls.sas-token."),
    *("adls.token", "adls.auth.shared-key.", "oss.access-key", "client.access-key", "client.security-token"),
)
# Each is asked with the session's credentials of the catalog, so it has to be the catalog's own server.
_OF_THE_CATALOG = (
    *("uri", "oauth2-server-uri", "s3.signer.uri", "s3.signer.endpoint", "signer.uri", "signer.endpoint"),
    *("rest.remote-signing.endpoint", "client.refresh-credentials-endpoint", "gcs.oauth2.refresh-credentials-endpoint"),
    "adls.refresh-credentials-endpoint",
)
# The properties of which the server has to vend each one, all of one of the groups, before its endpoint is followed.
_ENDPOINTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "s3.endpoint": (("s3.access-key-id", "s3.secret-access-key"),),
    "gcs.service.host": (("gcs.oauth2.token",),),
    "adls.connection-string.": (
        ("adls.sas-token.",),
        ("adls.auth.shared-key.account.name", "adls.auth.shared-key.account.key"),
        ("adls.token",),
    ),
}
# The session's own token would go with the keys that were vended.
_GOES_ALONG = {"s3.access-key-id": "s3.session-token"}


def untrusted_properties(said: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a ``FileIO`` that only its session may say, each with the reason.

    :param said: of the ``FileIO``, those of the session included.
    :param own: that the session has for the catalog.
    """
    foreign = {name: value for name, value in said.items() if own.get(name) != value}
    reasons = {name: _reason(name, value, said, own) for name, value in sorted(foreign.items())}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _reason(name: str, value: str, said: Mapping[str, str], own: Mapping[str, str]) -> str | None:
    if name == "io-impl":
        return None if name not in own and value in FILE_IOS else "it chooses code"
    if _CODE.search(name):
        return "it chooses code"
    if name in _OF_THE_CATALOG:
        return None if _is_of(value, own.get("uri", "")) else "credentials of the catalog would go to another server"
    endpoint = next((each for each in _ENDPOINTS if name.startswith(each)), None)
    if endpoint is not None:
        return (
            None
            if _signs(said, own) or _is_vended(_ENDPOINTS[endpoint], said, own)
            else ("keys that did not come with it would go there")
        )
    if not name.startswith(_READ) or name.startswith((*_HARMLESS, *_VENDED)):
        return None
    return "only the session may say it"


def _is_of(value: str, uri: str) -> bool:
    """Tell whether an address is a path, or has the origin of the catalog's."""
    there, catalog = urlsplit(value), urlsplit(uri)
    if not there.scheme and not there.netloc:
        return True
    return (there.scheme.lower(), there.netloc.lower()) == (catalog.scheme.lower(), catalog.netloc.lower())


def _signs(said: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Tell whether the catalog signs each request, so that no key is used here."""
    return said.get("s3.remote-signing-enabled", "").lower() == "true" and not own.get("s3.access-key-id")


def _is_vended(groups: Iterable[tuple[str, ...]], said: Mapping[str, str], own: Mapping[str, str]) -> bool:
    return any(all(_came(key, said, own) for key in group) for group in groups)


def _came(key: str, said: Mapping[str, str], own: Mapping[str, str]) -> bool:
    along = _GOES_ALONG.get(key)
    if along is not None and along in own and said.get(along) == own[along]:
        return False
    return any(
        value != own.get(name)
        for name, value in said.items()
        if name == key or (key.endswith(".") and name.startswith(key))
    )
