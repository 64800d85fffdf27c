"""Recognise secrets for Airflow's logs and for Spark's pages, by one list, and hide them in errors of libraries.

Where secrets lie on disk while a job runs: ``submission/job_files.py``. The list is held against every property that
PyIceberg, Iceberg and Hadoop document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote

_SECRET = (
    *("secret", "password", "passwd", "passphrase", "token", "access[._-]?key", "credential", "account[._-]key"),
    *("connection-string", "cookie", "api[._-]?key", "private[._-]?key", "refresh[._-]key", "session-kwargs"),
    *("(?:en|de)cryption[._-]key$", "sse[._-](?:key|md5)$", "shared[._-]?key$", "service[._-]account[._-]json$"),
    *("(?:^|[._-])(?:pass|pwd|sig)$", "signature$", "(?:^|[.])authorization$", "(?:zk|zookeeper)[.]auth$"),
    *("(?:^|[.])header[.]", "fs[.]azure[.]sas[.]", "sslkey$"),
)
# Spark 4.1's own default comes first, since setting the option replaces it. Spark tries it on keys and on values, so
# what is short and common ("uri" is in "security") is anchored.
REDACTION_REGEX = (
    "(?i)secret|password|token|access[.]?key"
    f"|{'|'.join(_SECRET)}|jdbc[.]user|basic[.]username|[.]uri$|proxy-endpoint|proxy-uri|connectionurl"
)
_SECRET_NAME = re.compile("(?i)" + "|".join(_SECRET))
# Names that speak of a secret without holding one.
_HARMLESS_NAME = re.compile(
    r"(?i)(?:[._-](?:ur[il]|expires-at|enabled?|providers?|endpoint|type|in-ms|ms|secs|path|files?|location|alias|class"
    r"|impl|size|mode|period|validity|domain|lifetime|max-lifetime|interval|count|name|binding|attempts|timeout|expiry"
    r"|keys|index|always-cancel|use_ip|clear-text-fallback|send-token-conf|ids|tokens-type|security[.]authorization"
    r"|azure[.]authorization|delegation[.]tokens|usecontainersaskeyforallaccess))$"
    r"|[.]key[.]id$|token[.]signature$|sas-token-expires-at-ms[.]"
)
_ALWAYS_HARMLESS = re.compile(
    r"(?i)fs[.]azure[.]sas[.](?:expiry|token[.]provider)|^header[.]x-iceberg-access-delegation$"
)
# An account, a container or a header may have any name behind it.
_SECRET_FAMILY = re.compile(
    r"(?i)^header[.]|fs[.]azure[.](?:account[.]key|sas)[.]|^adls[.](?:sas-token|connection-string)[.]"
)
# Names inside of objects, such as ``auth``.
_NESTED_NAME = re.compile(r"(?i)^(?:.*[._-])?keys?$")
_IN_TEXT = re.compile(
    r"(?i)\b(?:accountkey|sharedaccesssignature|ssl_?password|password|passwd|pwd|pass|token)=([^;&\s]+)"
)
_WEB_ADDRESS = re.compile(r"(?i)\s*(?:https?|socks\w*)://([^?#]*)")
# Shorter ones are found in every text.
_LEAST_LETTERS = 5


def is_secret(name: str) -> bool:
    """Return whether the value of a property must not be seen.

    :param name: a property of PyIceberg, of Iceberg-Java or of Hadoop, or a parameter of a URI.
    """
    if _ALWAYS_HARMLESS.search(name):
        return False
    is_named_so = _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None
    return is_named_so or _SECRET_FAMILY.search(name) is not None


def secret_values(properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield every secret value, of objects and lists inside of ``auth`` too, and the forms in which texts show them.

    :param properties: properties of either side.
    """
    for name, value in properties.items():
        for secret in _secrets_of(name, value, is_secret(name)):
            yield from forms(secret)


def forms(secret: str) -> Iterator[str]:
    """Yield a secret as logs and errors may show it: as it is, line by line, escaped, and encoded for a URI."""
    yield secret
    parts = {*secret.splitlines(), repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3]}
    parts |= {encoded(secret) for encoded in (_quoted, quote, quote_plus, unquote)}
    parts |= {ascii(secret)[1:-1], secret.encode(errors="backslashreplace").decode()}
    yield from sorted(part for part in parts - {secret} if len(part.strip()) >= _LEAST_LETTERS)


def _quoted(secret: str) -> str:
    return quote(secret, safe="")


def _secrets_of(name: str, value: object, hidden: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for below, inner in value.items():
            own = is_secret(str(below)) or _NESTED_NAME.match(str(below)) is not None
            yield from _secrets_of(str(below), inner, own or (hidden and isinstance(inner, (Mapping, list, tuple))))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets_of(name, inner, hidden)
    elif isinstance(value, str) and value.lower() not in ("", "true", "false"):
        yield from _secrets_in_text(name, value, hidden)


def _secrets_in_text(name: str, value: str, hidden: bool) -> Iterator[str]:
    if hidden:
        yield value
        # A header has a scheme before its secret.
        if name.lower().startswith("header.") and " " in value:
            yield value.split(" ", 1)[1]
        # An OAuth2 credential is "client id:secret"; the secret also travels alone.
        if name == "credential" and ":" in value:
            yield value.split(":", 1)[1]
        yield from _secrets_of(name, _as_json(value), False)
    yield from (match.group(1) for match in _IN_TEXT.finditer(value))
    yield from (inside for key, inside in parse_qsl(value.partition("?")[2]) if is_secret(key) and inside)
    if (address := _WEB_ADDRESS.match(value)) and "@" in address.group(1):
        # An unescaped '@' or '/' in a password does not end it.
        user = address.group(1).rpartition("@")[0]
        yield user.partition(":")[2] or user


def _as_json(value: str) -> object:
    """Return the object of a text such as a service account's key file; None for other texts."""
    try:
        parsed = json.loads(value) if value.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def hide_secrets(error: BaseException, hidden: Callable[[str], str]) -> None:
    """Replace secrets in the arguments of an error, and of every error that it was raised from or during.

    :param hidden: returns a text without secrets.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__, *(arg for arg in each.args if isinstance(arg, BaseException))]
        shown = repr(each.args) + str(each)
        if hidden(shown) != shown:
            each.args = tuple(hidden(str(arg)) for arg in each.args)
