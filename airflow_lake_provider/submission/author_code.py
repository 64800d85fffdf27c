"""Code of authors that a driver needs, and how it travels: as the text of a module, or by ``py_files``.

A function's module is sent as its text. The classes of a source that is none of this package are in a file of the job.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import sys
import zipfile
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.errors import InvalidSpecError

_OURS = __name__.partition(".")[0]
_ARCHIVES = (".zip", ".egg", ".whl")


def code_of(function: str | None) -> str | None:
    """Return the text of a function's module when this worker has it; None leaves it to the cluster.

    A module with relative imports is none without its package, and is left to the cluster, too.

    :param function: ``package.module:function``.
    :raises InvalidSpecError: its module is not UTF-8.
    """
    if function is None or ":" not in function:
        return None
    try:
        module = importlib.util.find_spec(function.partition(":")[0])
    except ModuleNotFoundError:
        return None
    if module is None or module.origin is None or not module.origin.endswith(".py"):
        return None
    text = _text_of(module.origin, getattr(module.loader, "get_data", None))
    return None if _has_relative_imports(text) else text


def _text_of(file: str, read: Callable[[str], bytes] | None) -> str:
    """Read a module as its loader does, which may read from an archive; a DAG may be packed in one, with its modules.

    :raises InvalidSpecError: it is not UTF-8, as which a driver reads it.
    """
    content = Path(file).read_bytes() if read is None else read(file)
    try:
        return io.StringIO(content.decode("utf-8-sig"), newline=None).read()
    except UnicodeDecodeError as error:
        raise InvalidSpecError(
            f"the module {file} travels to the driver as UTF-8, and is not: {error}; save it as UTF-8"
        ) from error


def _has_relative_imports(text: str) -> bool:
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError:
        # The driver shows the line.
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in nodes)


def refuse_left_behind(source: Source, py_files: str | None) -> None:
    """Refuse a source that the driver could not import, before Spark starts.

    :param py_files: of the task: paths with commas.
    :raises InvalidSpecError: its class is in no module of its own, its reader is no ``package.module:Class``, or the
        file of either does not travel.
    """
    kind = type(source)
    if kind.__module__.partition(".")[0] == _OURS:
        return
    if not _is_importable(kind):
        raise InvalidSpecError(
            f"the source {kind.__qualname__} is defined in {kind.__module__}, which a driver cannot import; put its "
            "class into a module of its own, beside the DAG file or in a package"
        )
    module, _, name = kind.reader.partition(":")
    if not module or not name.isidentifier():
        raise InvalidSpecError(
            f"the source {kind.__qualname__} has reader={kind.reader!r}, expected 'package.module:Class' of a "
            "BatchSource"
        )
    roots = {dotted.partition(".")[0] for dotted in (kind.__module__, module)} - {_OURS}
    left = sorted(root for root in roots if not _travels(root, py_files))
    if left:
        raise InvalidSpecError(
            f"the source {kind.__qualname__} needs {left} on the driver, and py_files={py_files!r} does not have it; "
            "give its file, or an archive of its package, as py_files"
        )


def _is_importable(kind: type[Source]) -> bool:
    module = kind.__module__
    if module == "__main__" or not kind.__qualname__.isidentifier():
        return False
    # Airflow imports a DAG file under a name that no path leads to.
    is_found = PathFinder.find_spec(module.partition(".")[0]) is not None
    return is_found and getattr(sys.modules.get(module), kind.__qualname__, None) is kind


def _travels(root: str, py_files: str | None) -> bool:
    """Return whether a top-level module is shipped; one that is installed here may be on the cluster as well."""
    paths = [path for path in (py_files or "").split(",") if path]
    shipped = any(Path(path).name == f"{root}.py" or _may_hold(path, root) for path in paths)
    return shipped or root in packages_distributions()


def _may_hold(archive: str, root: str) -> bool:
    if not archive.endswith(_ARCHIVES):
        return False
    # What lies on a store is looked at by Spark alone.
    file = Path(archive.removeprefix("file://"))
    if not file.is_file():
        return True
    try:
        with zipfile.ZipFile(file) as opened:
            return any(name == f"{root}.py" or name.startswith(f"{root}/") for name in opened.namelist())
    except zipfile.BadZipFile:
        # Python imports nothing from it.
        return False
