"""Look at many tables of a catalog at a time; one that cannot be read stops no other."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.errors import CatalogUnavailableError, LakeProviderError, MissingTableError
from airflow_lake_provider.contracts.file_locations import folders_of_metadata
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.maintenance.locations import TableLocations

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.tables.base import ListedTable, LoadedTable

Looked = TypeVar("Looked")

# Seconds in which a server that restarts, or one behind a balancer, mostly answers again.
BEFORE_SECOND_LOOK = 5.0
_AT_A_TIME = 8


def look_at_tables(
    tables: str | Sequence[str] | TablePatterns,
    hook: LakeCatalogHook,
    look: Callable[[ListedTable, LoadedTable], Looked],
    broken: Callable[[str, str], Looked],
    error_of: Callable[[Looked], str | None],
    *,
    forget: Callable[[], None] = lambda: None,
    missing_are_broken: bool = False,
) -> list[Looked]:
    """Return what is made of each table that patterns mean, several being read at a time.

    Tables that the catalog did not answer for are looked at twice, while it answers; it has to list its tables before.
    A pattern that matches no table is a warning in the log.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param look: makes it of a table, as the catalog lists it and as it was loaded.
    :param broken: makes it of the name of a table that cannot be read or named, and of the error.
    :param error_of: returns the error of what was made.
    :param forget: called before the second look: what the first one has read is not there any more.
    :param missing_are_broken: a table that is named and does not exist stops no other.
    :raises InvalidSpecError: a pattern is none.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    patterns = tables if isinstance(tables, TablePatterns) else TablePatterns.parse(tables)
    hook.table_format.refuse_lacking(f"connection {hook.lake_conn_id!r}", ["health"])
    listed, missing = hook.tables_and_missing(patterns) if missing_are_broken else (hook.tables_matching(patterns), {})

    _tell_unmatched(patterns, {str(each) for each in listed}, hook)
    seconds: dict[ListedTable, float] = {}

    def at(table: ListedTable) -> Looked:
        began = time.monotonic()
        answer = _looked_at(table, hook, look, broken)
        seconds[table] = time.monotonic() - began
        return answer

    with ThreadPoolExecutor(hook.opened.most_readers(), "look-at-tables") as readers:
        looked = dict(zip(listed, readers.map(at, listed), strict=True))
        if again := [table for table, seen in looked.items() if is_unanswered(error_of(seen))]:
            log.warning("the catalog did not answer for %d of %d tables; it is asked again", len(again), len(listed))
            time.sleep(BEFORE_SECOND_LOOK)
            hook.tables_and_missing(patterns)
            forget()
            # One that hangs takes a minute, and may do so for good.
            again.sort(key=seconds.__getitem__)
            looked |= _answers(again, lambda some: list(readers.map(at, some)), error_of)
    return [*looked.values(), *(broken(name, f"MissingTableError: table {name} {missing[name]}") for name in missing)]


def _looked_at(
    table: ListedTable,
    hook: LakeCatalogHook,
    look: Callable[[ListedTable, LoadedTable], Looked],
    broken: Callable[[str, str], Looked],
) -> Looked:
    if refusal := _refusal(table, hook):
        return broken(str(table), refusal)
    try:
        return hook.look_at(table, lambda loaded: look(table, loaded))
    except LakeProviderError as error:
        return broken(str(table), f"{type(error).__name__}: {error}")
    # Nothing that a stranger's table does may stop the look at the others.
    except Exception as error:
        log.exception("table %s cannot be judged", table)
        return broken(str(table), f"table {table} cannot be judged: {type(error).__name__}: {error}")


def _tell_unmatched(patterns: TablePatterns, listed: set[str], hook: LakeCatalogHook) -> None:
    """Warn of each pattern that matches no table of the catalog, with what it may be meant for."""
    if not patterns.unmatched(listed):
        return
    names = set(listed)
    # Those that were listed lie in the namespaces of the patterns, and another pattern may leave some out.
    with suppress(LakeProviderError):
        names |= {str(each) for each in hook.list_tables()}
    namespaces = {name.rpartition(".")[0] for name in names}
    for pattern in patterns.unmatched(names):
        meant = nearest(pattern, [*(f"{each}.*" for each in sorted(namespaces)), *sorted(names)])
        log.warning("no table matches %r%s", pattern, meant)


def _answers(
    tables: Sequence[ListedTable],
    look_at: Callable[[Sequence[ListedTable]], list[Looked]],
    error_of: Callable[[Looked], str | None],
) -> dict[ListedTable, Looked]:
    """Look at some tables at a time, until the catalog answers for none of them: each may take a minute."""
    answers: dict[ListedTable, Looked] = {}
    for start in range(0, len(tables), _AT_A_TIME):
        looked = look_at(some := tables[start : start + _AT_A_TIME])
        answers |= zip(some, looked, strict=True)
        if all(is_unanswered(error_of(each)) for each in looked):
            break
    return answers


def is_unanswered(error: str | None) -> bool:
    """Tell whether an error, which begins with its class, is that of a catalog that did not answer."""
    return error is not None and error.startswith(CatalogUnavailableError.__name__)


def _refusal(table: ListedTable, hook: LakeCatalogHook) -> str | None:
    """Return why no operator maintains a table, from the catalog's list alone."""
    if not table.is_nameable:
        levels = ", ".join(map(shown, table.levels))
        why = f"no operator can name it: of its levels {levels}, one has other characters than letters, digits, '_'"
        return f"UnsupportedError: table {table}: {why} and '-'; rename it"
    if table.foreign:
        why = f"it is {table.foreign}, and {hook.table_format.title} alone is maintained"
        return f"UnsupportedError: {table}: {why}; leave it out by '!{table}'"
    return None


def table_locations(
    hook: LakeCatalogHook, tables: Sequence[ListedTable], *, of_earlier_versions: bool
) -> list[TableLocations]:
    """Return the folders of tables, without a bound on their number or on time.

    A table that cannot be read has its error, and the folder of its metadata file where the catalog lists that.

    :param tables: as the catalog lists them; one that was dropped since then is left out.
    :param of_earlier_versions: read also what earlier versions of the metadata declared.
    :raises LakeProviderError: the catalog cannot be opened.
    """

    def at(listed: ListedTable) -> TableLocations | None:
        name = str(listed)
        if listed.foreign:
            # Its files are no less its own.
            return TableLocations(name=name, folders=(listed.location,)) if listed.location else None
        try:
            return hook.look_at(
                listed,
                lambda table: TableLocations(
                    name=name,
                    folders=table.locations(of_earlier_versions=of_earlier_versions),
                    uuid=table.facts.uuid,
                ),
            )
        except MissingTableError:
            # Dropped since it was listed.
            return None
        # Whatever a stranger's table does, its place is not known then.
        except Exception as error:  # noqa: BLE001  # the error is told with the table
            why = f"{type(error).__name__}: {error}"
        return TableLocations(name=name, folders=folders_of_metadata(listed.metadata_location), error=why)

    with ThreadPoolExecutor(hook.opened.most_readers(), "table-locations") as readers:
        return [each for each in readers.map(at, tables) if each is not None]
