"""Recognise properties that hide a secret, for Airflow's logs and for Spark's pages.

Where secrets lie on disk while a job runs: ``submission/job_files.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Spark 4.1's own default comes first, since setting the option replaces it. Spark tries it on keys and on values, so
# what is short and common ("uri" is in "security") is anchored.
REDACTION_REGEX = (
    "(?i)secret|password|token|access[.]?key"
    "|access-key|credential|jdbc[.]user|basic[.]username|sas-token|account[.-]key|shared-key|connection-string"
    "|sse[.]key|[.]header[.]|[.]uri$|proxy-endpoint"
)
_SECRET_NAME = re.compile(
    "(?i)secret|password|token|access-key|credential|sas-token|account[.-]key|connection-string|^header[.]|authorization"
)
# Names that speak of a secret without holding one.
_HARMLESS_NAME = re.compile(r"(?i)(-uri|_url|-expires-at|-expires-at-ms|-enabled|-provider|-endpoint|-type|-in-ms)$")
# A proxy's URL may carry a password; the catalog's own URI may not.
_PASSWORD_IN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/:@]*:([^/@]+)@")


def is_secret(name: str) -> bool:
    """Tell whether the value of a property must not be seen.

    :param name: a property of PyIceberg or of Iceberg-Java.
    """
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.search(name)


def secret_values(properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield every secret value, nested objects such as ``auth`` included.

    :param properties: properties of either side.
    """
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from secret_values(value)
        elif value and is_secret(name):
            yield str(value)
            # An OAuth2 credential is "client id:secret"; the secret also travels alone.
            if name == "credential" and ":" in str(value):
                yield str(value).split(":", 1)[1]
        elif isinstance(value, str) and (inside := _PASSWORD_IN_URL.match(value)):
            yield inside.group(1)
