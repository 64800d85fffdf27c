"""Names of local files and folders that Hadoop leaves out without a word: it does not see what they stand for.

Java reads names in the encoding of the locale it was started in. With ``LC_ALL=C`` that is ASCII alone. A symbolic link
may lead to a file that is gone.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of

GLOB_CHARACTERS = frozenset("{}[]*?\\")


def is_glob(text: str) -> bool:
    """Tell whether a path, or a part of one, has a sign that a glob of Hadoop reads as one."""
    return not GLOB_CHARACTERS.isdisjoint(text)


def encoding_of_names(spark: SparkSession) -> str:
    """Return the encoding in which Java reads names of files, such as ``UTF-8``."""
    return _encoding_of(jvm_of(spark))


@functools.cache
def _encoding_of(jvm: Any) -> str:
    return str(jvm.java.lang.System.getProperty("sun.jnu.encoding") or "UTF-8")


def is_hidden(name: str) -> bool:
    """Return whether Spark's file index skips a name; the rule is ``HadoopFSUtils.shouldFilterOutPathName``."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def refuse_unread_names(folder: str, encoding: str) -> None:
    """Refuse a name in a folder that Hadoop leaves out, unless it is a hidden one.

    :param folder: path of the local disk.
    :raises BadInputError: naming the first.
    """
    for entry in _entries(folder):
        _refuse(_why_left_out(entry.path, encoding, is_link=entry.is_symlink()))


def refuse_unread_matches(
    spark: SparkSession, filesystem: Any, pattern: str, encoding: str, paths_of: Callable[[Any], Sequence[str]]
) -> None:
    """Refuse a name that Hadoop leaves out, and that a glob would match.

    :param filesystem: Hadoop's of the local disk.
    :param pattern: the glob.
    :param paths_of: returns the paths of an array of ``FileStatus``, with their scheme.
    :raises BadInputError: naming the first.
    """
    hadoop = jvm_of(spark).org.apache.hadoop.fs
    for each in _expanded(pattern):
        is_absolute = each.startswith("/")
        path = each if is_absolute else str(filesystem.makeQualified(hadoop.Path(each)).toUri().getPath())
        levels, folders = [level for level in path.split("/") if level], ["/"]
        for place, level in enumerate(levels, 1):
            is_last = place == len(levels)
            if not is_glob(level):
                folders = [str(Path(folder, re.sub(r"\\(.)", r"\1", level))) for folder in folders]
                for each_path in folders:
                    _refuse(_why_left_out(each_path, encoding, is_link=Path(each_path).is_symlink()))
                continue
            _refuse_of_level(hadoop.GlobPattern(level), folders, encoding, is_last=is_last)
            if not is_last:
                matches = filesystem.globStatus(hadoop.Path("/" + "/".join(levels[:place])))
                folders = [path.removeprefix("file:") for path in paths_of(matches)] if matches is not None else []


_BRACES = re.compile(r"\\.|[{},]", re.DOTALL)


def _expanded(pattern: str) -> Iterator[str]:
    """Yield the patterns that braces of several levels stand for, as ``a/*`` and ``b/c/*`` of ``{a,b/c}/*``."""
    depth, cuts = 0, list[int]()
    for sign in _BRACES.finditer(pattern):
        place = sign.start()
        depth += {"{": 1, "}": -1}.get(sign[0], 0)
        if sign[0] == "{" and depth == 1:
            cuts = [place]
        elif sign[0] == "," and depth == 1:
            cuts.append(place)
        elif sign[0] == "}" and depth == 0 and "/" in pattern[cuts[0] : place]:
            for before, behind in pairwise((*cuts, place)):
                yield from _expanded(f"{pattern[: cuts[0]]}{pattern[before + 1 : behind]}{pattern[place + 1 :]}")
            return
    yield pattern


def _refuse_of_level(names: Any, folders: Sequence[str], encoding: str, *, is_last: bool) -> None:
    """Refuse a name that is left out and that a level of a glob matches; only of such a one Java is asked."""
    for entry in (entry for folder in folders for entry in _entries(folder)):
        is_link = entry.is_symlink()
        why = _why_left_out(entry.path, encoding, is_link=is_link)
        # Behind a link that leads nowhere may have been a folder.
        if why is not None and (is_last or is_link or entry.is_dir()):
            _refuse(why if names.matches(os.fsencode(entry.name).decode(encoding, "replace")) else None)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    # What is no folder has no names, and Hadoop says why one cannot be read.
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []


def _refuse(why: str | None) -> None:
    if why is not None:
        raise BadInputError(why)


def _why_left_out(path: str, encoding: str, *, is_link: bool) -> str | None:
    """Return why Hadoop does not see a name, with what to do; None for one that it sees, and for a hidden one."""
    name = path.rpartition("/")[2]
    if (name.isascii() and not is_link) or is_hidden(name):
        return None
    if not _is_read(name, encoding):
        return (
            f"{_shown(path)} has a name that Java does not read as {encoding}, so its rows would be left out; rename "
            "it, or start the driver with LC_ALL=C.UTF-8 where names are UTF-8"
        )
    if is_link and not Path(path).exists():
        return (
            f"{_shown(path)} is a link to {_shown(str(Path(path).readlink()))}, where the driver sees nothing, so its "
            "rows would be left out; bring back what it shows, or remove the link"
        )
    return None


def _is_read(name: str, encoding: str) -> bool:
    try:
        os.fsencode(name).decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
