"""The regular expressions that Spark runs on data, read from the package's source: Java's machine runs these."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from pyspark.sql import types

import airflow_lake_provider

PACKAGE = Path(airflow_lake_provider.__file__).parent
# Functions of Spark that take a regular expression, and the argument that is it, for methods of a column one less.
_OF_SPARK = ("regexp", "regexp_like", "regexp_replace", "regexp_extract", "regexp_extract_all", "regexp_count")
# What stands in patterns that are put together, by the names that the code has for it.
_PARTS = {
    "name": "orders",
    "names": r"my\.orders|orders",
    "s": ",",
    "q": '"',
    "kind": "json",
    "digits": r"(?:[0-9]++|[0-9]{1,3}(?:\.[0-9]{2,3})*\.[0-9]{3})?",
    "point": ",",
    "field": r'(?:"[^"]*+(?:""[^"]*+)*+"[ \t]*+|(?!")[^,]*+)',
    "hidden": r"(?:^|/)(?!_day=|\.hour=)[_.]",
}
_SAMPLES = ({"target": types.DecimalType(38, 10), "wanted": types.DecimalType(38, 10)}, {"target": types.DoubleType()})


def modules(*words: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield each module of the package with one of the words in its text, with its syntax tree."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # To parse and walk all of them took each process of the tests two seconds.
        if any(word in text for word in words):
            yield path, ast.parse(text)


def imported(path: Path) -> ModuleType:
    """Return the module of a file of the package."""
    return importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))


@cache
def java_patterns() -> dict[str, str]:
    """Return each pattern by its place; a name in it that has no sample here is a NameError."""
    found: dict[str, str] = {}
    for path, tree in modules("rlike(", "matches(", *(f".{name}(" for name in _OF_SPARK)):
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="rlike"), args=[pattern]):
                    found |= _found(path, pattern)
                case ast.Call(func=ast.Name(id="matches"), args=[_, pattern]):
                    found |= _found(path, pattern)
                case ast.Call(func=ast.Attribute(attr=name), args=[_, pattern, *_]) if name in _OF_SPARK:
                    found |= _found(path, pattern)
    return found


def _found(path: Path, pattern: ast.expr) -> dict[str, str]:
    match pattern:
        case ast.Call(func=ast.Attribute(attr="lit"), args=[inner]):
            pattern = inner
    code = compile(ast.fix_missing_locations(ast.Expression(pattern)), str(path), "eval")
    place = f"{path.relative_to(PACKAGE)}: {ast.unparse(pattern)}"
    for sample in _SAMPLES:
        try:
            return {place: eval(code, {**vars(imported(path)), **_PARTS, **sample})}
        except (KeyError, AttributeError):
            continue
    raise AssertionError(f"{place}: no sample fits")
