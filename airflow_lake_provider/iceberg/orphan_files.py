"""Rules of orphan files: which names count as one file, which are hidden, what kind a file is, and from which age on.

Patterns are read alike by Java and by Python. Where two spellings may name one file, they count as one: a file more
that stays costs a few bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from urllib.parse import quote_plus

from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts
from airflow_lake_provider.iceberg.streaming_writers import named, newest_of_jobs, newest_of_sinks, sink_text

# Scheme and authority of a location.
STORE = r"^(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?"
SLASHES = r"/+"
# Escapes of a path, however often it was escaped, and what may be escaped.
ESCAPED = r"%(?:25)*[0-9A-Fa-f]{2}|[^A-Za-z0-9/._=~-]"
# One letter may be one character, or several escapes.
ESCAPES = r"\?+"
# A metadata file with its number, of any catalog.
METADATA_FILE = r"^v?(\d{1,15})\b.*\.metadata\.json(?:\.gz)?$"
# A metadata file of any name.
METADATA_NAME = r"\.metadata\.json(?:\.gz)?$"
# Logs of other formats, whose files may lie among those of the table. Paimon writes Iceberg's metadata beside its own.
OTHER_FORMATS = r"(?:^|/)(?:_delta_log/|\.hoodie/|snapshot/snapshot-\d+$|schema/schema-\d+$)"
# Hidden, so that no listing of ours or of Iceberg's takes what is in it for the table's.
QUARANTINE = "_quarantine"

_NAMED = 3
# Of two that match, the one that begins first in the name counts.
_KIND = re.compile(
    r"(?P<metadata_file>\.metadata\.json(?:\.gz)?$|^version-hint\.text$)"
    r"|(?P<manifest_list>^snap-[^/]*\.avro$)"
    r"|(?P<manifest>-m\d+\.avro$)"
    r"|(?P<statistics_file>\.stats$|^partition-stats-)"
    r"|(?P<delete_file>\.puffin$|^(?=.*-delete).*\.(?:parquet|orc|avro)$)"
    r"|(?P<data_file>\.(?:parquet|orc|avro)$)"
)
OTHER = "other file"


def file_key(location: str) -> str:
    """Return a path without scheme, authority, doubled slashes and escapes: of two that may be one file it is equal."""
    replaced = re.sub(ESCAPED, "?", plain_path(location))
    return re.sub(ESCAPES, "?", replaced)


def plain_path(location: str) -> str:
    """Return the path of a location, without doubled slashes."""
    below_store = re.sub(STORE, "", location)
    return re.sub(SLASHES, "/", below_store)


def name_key(location: str) -> str:
    """Return the last part of :func:`file_key`."""
    return file_key(location).rpartition("/")[2]


def kind_of(location: str) -> str:
    """Return what a file is by its name; :data:`OTHER` for a name that no writer of Iceberg gives."""
    match = _KIND.search(location.rpartition("/")[2])
    return OTHER if match is None else str(match.lastgroup).replace("_", " ")


def hidden(partition_fields: Iterable[str]) -> str:
    """Return a pattern of paths that are hidden: a part begins with ``_`` or ``.``, and is no partition of such a name.

    :param partition_fields: of all partition specs.
    """
    named_so = {name for name in partition_fields if name.startswith(("_", "."))}
    folders = sorted({re.escape(f"{spelled}=") for name in named_so for spelled in (name, quote_plus(name))})
    but_for = f"(?!{'|'.join(folders)})" if folders else ""
    return rf"(?:^|/){but_for}[_.]"


def metadata_version(location: str) -> int | None:
    """Return the number of a metadata file; None where its name has none."""
    match = re.search(METADATA_FILE, location.rpartition("/")[2])
    return None if match is None else int(match[1])


def removable_before(
    facts: IcebergFacts, asked: datetime, now: datetime, least: timedelta, flink_jobs_older_than: timedelta
) -> tuple[datetime, str | None]:
    """Return the moment before which a file was written that may go, and why it is earlier than was asked for.

    Before a commit, files of a Flink job are in its state alone, and those of a sink in its control topic. All of them
    were written after the last commit, or little before it.

    :param asked: what the author asks for.
    :param least: age that a file has to have in any case.
    :param flink_jobs_older_than: age of its last commit at which a job or a sink counts as gone.
    """
    histories, since = facts.branch_histories(), max(0, epoch_millis(now - flink_jobs_older_than))
    jobs, sinks = list(newest_of_jobs(histories, since).values()), newest_of_sinks(histories, since)
    before = min(asked, now - least)
    if not jobs and not sinks:
        return before, None
    oldest = datetime.fromtimestamp(min(last.at for last in (*jobs, *sinks.values())) / 1000, UTC) - least
    if oldest >= before:
        return before, None
    shown = [sink_text(sink, last) for sink, last in sinks.items()]
    writers = [*([named(jobs)] if jobs else []), *shown[-_NAMED:]]
    return oldest, (
        f"files written after {oldest:%Y-%m-%d %H:%M} UTC stay, as they may wait for a commit of {', '.join(writers)}"
    )
