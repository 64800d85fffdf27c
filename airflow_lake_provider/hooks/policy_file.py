"""Read the YAML file beside the DAGs that names policies of tables, or refuse it whole, with each fault by its line.

Of YAML it takes what JSON has, and comments. Plain texts are those of YAML 1.2, in which ``off`` is no boolean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import conf

from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.policy_settings import GROUPS, NamedValue, read_value, refuse_unknown
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.table_name import TableName, TablePatterns
from airflow_lake_provider.maintenance.policy import Layer, LayerValues

DEFAULT_NAME = "lake_policy.yaml"
# A thousand tables with five settings each have less.
MOST_BYTES = 256 * 1024
# The file, its tables, a table, a group of settings, a list.
_DEEPEST = 5
_MOST_FAULTS = 20
_TABLES = "tables"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,30}\.[0-9]{1,30}")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class PolicyEntry:
    """Settings of the tables whose names a pattern matches.

    :param pattern: as it is written.
    :param named: its settings.
    """

    pattern: str
    named: tuple[NamedValue, ...]

    def matches(self, table: str) -> bool:
        """Tell whether a table is among those that are meant."""
        is_wild = "*" in self.pattern or "?" in self.pattern
        return self.pattern == table or (is_wild and fnmatchcase(table, self.pattern))


@dataclass(frozen=True)
class PolicyFile:
    """A file of policies.

    :param path: where it lies.
    :param entries: in the order of the file.
    """

    path: str
    entries: tuple[PolicyEntry, ...] = ()

    def layer(self, table: str) -> LayerValues:
        """Return what the file names for a table: of all entries that match, a later one goes before an earlier one."""
        named = (each.named for each in self.entries if each.matches(table))
        return LayerValues(Layer.FILE, [value for values in named for value in values])


def read_policy_file(path: str | None = None, bundle: Path | None = None) -> PolicyFile | None:
    """Read a file of policies.

    :param path: None takes ``[lake] policy_file``, or else ``lake_policy.yaml``, where it exists.
    :param bundle: folder of the bundle of a DAG, in which the file is looked for before the folder of DAGs.
    :return: None where nobody names a file, and there is none of that name.
    :raises InvalidSpecError: it cannot be read, or has what no setting takes.
    """
    asked = path or conf.get("lake", "policy_file", fallback="")
    file = Path(str(conf.get("core", "dags_folder", fallback="."))) / (asked or DEFAULT_NAME)
    try:
        of_bundle = None if bundle is None else bundle / (asked or DEFAULT_NAME)
        file = file if of_bundle is None or _is_absent(of_bundle) else of_bundle
        if not asked and _is_absent(file):
            return None
        if not file.is_file():
            if file.is_symlink():
                raise InvalidSpecError(f"{file}: it is a link to {file.readlink()}, which does not exist or is no file")
            raise InvalidSpecError(f"{file}: there is no such file of policies")
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InvalidSpecError(f"{file}: a file of policies has at most {MOST_BYTES} bytes; use patterns of names")
        return parse_policy_file(content.decode("utf-8-sig"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpecError(f"{file}: it cannot be read as UTF-8: {error}") from None


def _is_absent(file: Path) -> bool:
    """Tell whether there is nothing of that name; a link that leads nowhere is something."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


def parse_policy_file(text: str, path: str) -> PolicyFile:
    """Read the text of a file of policies.

    :param path: named in errors, and in the origin of values.
    :raises InvalidSpecError: with up to twenty faults by their lines.
    """
    reading = _Reading(path)
    try:
        tree = _Parsing(text).whole()
        entries = tuple(reading.entries(tree)) if tree is not None else ()
    except _UnfitYamlError as error:
        raise InvalidSpecError(f"{path}:{error.line}: {error}") from None
    if faults := [each for _, each in sorted(reading.faults)]:
        more = [f"and {len(faults) - _MOST_FAULTS} faults more"] if len(faults) > _MOST_FAULTS else []
        raise InvalidSpecError("\n".join([*faults[:_MOST_FAULTS], *more]))
    return PolicyFile(path, entries)


class _UnfitYamlError(Exception):
    """The text is no YAML, or has of YAML what no policy needs."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True)
class _Node:
    """A value with the line on which it begins: a scalar of JSON, a list of nodes, or pairs of them.

    :param text: of a scalar; None of others.
    """

    line: int
    value: Any
    is_mapping: bool = False
    text: str | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether it is the null of YAML, as between two marks of documents."""
        return self.value is None

    def plain(self) -> Any:
        if self.is_mapping:
            return {key.text: each.plain() for key, each in self.value}
        return [each.plain() for each in self.value] if isinstance(self.value, list) else self.value


class _Parsing:
    """Makes nodes of events, so that nothing is built that could grow or run."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_Loader)

    def whole(self) -> _Node | None:
        """Return the only document; None of a file without one, and of one that has nothing in it."""
        self._next()
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        node = self._node(self._next(), 1)
        self._next()
        if not isinstance(after := self._next(), yaml.StreamEndEvent):
            raise _UnfitYamlError("a file of policies has one document", after.start_mark.line + 1)
        return None if node.is_empty else node

    def _next(self) -> Any:
        try:
            return next(self._events)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            why = getattr(error, "problem", None) or "it has a character that YAML does not take"
            raise _UnfitYamlError(f"it is no YAML: {why}", mark.line + 1 if mark else 1) from None

    def _node(self, event: Any, depth: int) -> _Node:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None or event.tag not in (None, "!"):
            raise _UnfitYamlError("anchors, aliases and tags of YAML are not taken; write the value itself", line)
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.style in (None, "")
            return _Node(line, _plain_scalar(event.value) if is_plain else event.value, text=event.value)
        if depth > _DEEPEST:
            raise _UnfitYamlError("it is nested deeper than any policy", line)
        nodes = []
        while not isinstance(each := self._next(), (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            nodes.append(self._node(each, depth + 1))
        if isinstance(event, yaml.MappingStartEvent):
            return _Node(line, list(zip(nodes[::2], nodes[1::2], strict=True)), is_mapping=True)
        return _Node(line, nodes)


def _plain_scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


@dataclass
class _Reading:
    """Reads nodes as policies, and notes what is at fault.

    :param path: of the file.
    """

    path: str
    faults: list[tuple[int, str]] = field(default_factory=list)

    def entries(self, tree: _Node) -> Iterator[PolicyEntry]:
        for key, node in self._pairs(tree, "a file of policies"):
            if key.text != _TABLES:
                near = nearest(str(key.text)[:100], [_TABLES])
                self._fault(key, f"a file of policies has no {_shown(key)}{near}; it has {_TABLES}")
                continue
            for pattern, settings in self._pairs(node, _TABLES):
                if self._is_pattern(pattern):
                    yield PolicyEntry(str(pattern.text), tuple(self._named(settings, str(pattern.text))))

    def _is_pattern(self, node: _Node) -> bool:
        pattern = str(node.text)
        try:
            if pattern.startswith("!"):
                raise InvalidSpecError("an entry leaves out no table; write another entry behind it")
            TablePatterns.parse([pattern])
            if not set("*?") & set(pattern):
                TableName.parse(pattern)
        except InvalidSpecError as error:
            self._fault(node, str(error))
            return False
        return True

    def _named(self, settings: _Node, pattern: str, group: str = "") -> Iterator[NamedValue]:
        for key, node in self._pairs(settings, group or f"policy of {pattern!r}"):
            name = f"{self.path}:{key.line}"
            try:
                refuse_unknown(key.text, name, group)
                if not group and key.text in GROUPS:
                    yield from self._named(node, pattern, str(key.text))
                    continue
                whole = f"{group}.{key.text}" if group else str(key.text)
                value = read_value(whole, node.plain(), name)
                yield NamedValue(key=whole, value=value, origin=f"{Path(self.path).name}:{key.line} {pattern!r}")
            except InvalidSpecError as error:
                self.faults.append((key.line, str(error)))

    def _pairs(self, node: _Node, what: str) -> Sequence[tuple[_Node, _Node]]:
        """Return the pairs of a mapping, each key once."""
        if not node.is_mapping:
            self._fault(node, f"{what} must be a mapping, got {_shown(node)}")
            return ()
        pairs: dict[str, tuple[_Node, _Node]] = {}
        for key, value in node.value:
            if key.text is None:
                self._fault(key, f"{what} has a name that is no text")
            elif key.text in pairs:
                self._fault(key, f"{what} has {_shown(key)} on line {pairs[key.text][0].line} already")
            else:
                pairs[key.text] = key, value
        return list(pairs.values())

    def _fault(self, node: _Node, why: str) -> None:
        self.faults.append((node.line, f"{self.path}:{node.line}: {why}"))


def _shown(node: _Node) -> str:
    return shown(node.text if node.text is not None else str(node.plain()))
