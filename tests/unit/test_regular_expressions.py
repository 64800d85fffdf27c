"""No regular expression of the package takes longer than its text is long, whatever the text is.

Texts come from files, names, forms, tables, servers and logs, all of which others may write. A pattern that can divide
a text in several ways tries them all before it says no: a megabyte of blanks then takes hours.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import re._parser as parser  # type: ignore[import-not-found]
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FrameType, ModuleType
from typing import Any

import pytest

from airflow_lake_provider.contracts.reports import failure_causes
from airflow_lake_provider.operators.allowed_tables import form_pattern
from tests.java_patterns import PACKAGE, imported, java_patterns, modules

METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")
MEGABYTE = 1_000_000
# The mildest pattern that divides in two ways takes twice what is allowed for it, and the worst ten times.
LENGTH = 25_000
SECONDS = 1.0
# For the short texts; a pattern that fits takes some milliseconds.
STRICT = SECONDS / 4


@dataclass(frozen=True)
class Use:
    """A pattern, and the method of ``re`` that applies it."""

    place: str
    pattern: re.Pattern[str]
    method: str

    def apply(self, text: str) -> None:
        applied: Callable[..., Any] = getattr(self.pattern, self.method)
        if self.method in ("sub", "subn"):
            applied("", text)
        elif self.method == "finditer":
            list(applied(text))
        else:
            applied(text)


def calls_of_re(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name)) if name in (*METHODS, "compile"):
                yield node


def named_patterns(tree: ast.Module, module: ModuleType) -> dict[str, re.Pattern[str]]:
    """Patterns that are compiled under a name of the module."""
    compiled = [
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(getattr(module, node.targets[0].id), re.Pattern)
    ]
    assert len(compiled) == sum(
        call.func.attr == "compile" for call in calls_of_re(tree) if isinstance(call.func, ast.Attribute)
    ), module
    return {name: getattr(module, name) for name in compiled}


@cache
def uses() -> list[Use]:
    """All uses in the package; one that cannot be read from the source fails here."""
    found: list[Use] = []
    named: dict[tuple[str, str], re.Pattern[str]] = {}
    trees = [(path, tree) for path, tree in modules("re.") if any(True for _ in calls_of_re(tree))]
    for path, tree in trees:
        module, place = imported(path), str(path.relative_to(PACKAGE))
        named |= {(module.__name__, name): pattern for name, pattern in named_patterns(tree, module).items()}
        for call in calls_of_re(tree):
            assert isinstance(call.func, ast.Attribute)
            if call.func.attr != "compile":
                given = ast.Call(ast.parse("re.compile", mode="eval").body, [call.args[0], *flags_of(call)], [])
                code = compile(ast.fix_missing_locations(ast.Expression(given)), str(path), "eval")
                found.append(
                    Use(f"{place}:{ast.unparse(call.args[0])}", eval(code, {**vars(module), "re": re}), call.func.attr)
                )
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=method) if (module.__name__, name) in named:
                    if method == "pattern":  # its text is part of another one, which is tried itself
                        continue
                    assert method in METHODS, f"{place}: {name}.{method}"
                    found.append(Use(f"{place}:{name}", named[module.__name__, name], method))
    for name, kind in vars(failure_causes).items():
        if isinstance(kind, failure_causes.FailureKind):
            found += [Use(f"failure_causes.py:{name}", pattern, "search") for pattern in kind.patterns]
    unused = {key for key, pattern in named.items() if not any(use.pattern is pattern for use in found)}
    assert not unused, f"used where this test does not look: {unused}"
    return found


def flags_of(call: ast.Call) -> list[ast.expr]:
    """Flags stand behind the texts: two of ``fullmatch``, three of ``sub``."""
    return [node for node in call.args[2:] if "re." in ast.unparse(node)]


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """End a pattern that would take hours of CPU, whatever runs beside; re looks for signals."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the pattern takes longer than its text is long")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, 30 * SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def sample(tree: Iterable[tuple[Any, Any]]) -> str:
    """Return a short text that a parsed pattern would take, roughly."""
    return "".join(sample_of(str(kind), value) for kind, value in tree)


def sample_of(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return sample(value[2]) * max(value[0], 1)
        case "SUBPATTERN":
            return sample(value[3])
        case "ATOMIC_GROUP":
            return sample(value)
        case "BRANCH":
            return sample(value[1][0])
        case "IN":
            return member_of(value)
        case "ANY" | "NOT_LITERAL":
            return "x"
    return ""


def member_of(members: Iterable[tuple[Any, Any]]) -> str:
    text = "".join(one_of(str(kind), value) for kind, value in members)
    return text[:1] or "x"


def one_of(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(value[0])
        case "CATEGORY":
            return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(str(value), "x")
    return ""


def repeats(tree: Iterable[tuple[Any, Any]], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield what stands before each repetition of a pattern, and what it repeats."""
    for kind, value in tree:
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                if value[1] > 100:
                    yield before, sample(value[2])
                yield from repeats(value[2], before)
            case "SUBPATTERN":
                yield from repeats(value[3], before)
            case "ATOMIC_GROUP":
                yield from repeats(value, before)
            case "ASSERT" | "ASSERT_NOT":
                yield from repeats(value[1], before)
            case "BRANCH":
                for branch in value[1]:
                    yield from repeats(branch, before)
        before += sample_of(str(kind), value)


PUMPED = (
    " ",
    "a",
    "0",
    "1",
    ".",
    "-",
    "\n",
    "A",
    "a.",
    "a ",
    "a-",
    "1,",
    "(",
    "`",
    "``",
    "\\",
    "'",
    ":",
    "a:",
    "[",
    "\u2028",
    "²",
)


def texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Yield texts that divide in many ways and do not fit in the end."""
    attacks = {("", pumped) for pumped in PUMPED}
    for before, body in repeats(parser.parse(pattern.pattern, pattern.flags)):
        attacks |= {(before, body), (before, " "), (before, f"{body} "), ("", before + body)}
    for before, pumped in sorted(attacks):
        if pumped:
            yield f"{before}{pumped * (length // len(pumped))}\x00!"
            yield f"{before}{pumped * (length // len(pumped))}\n!"


def seconds(use: Use, text: str) -> float:
    """Return the CPU time, the best of up to three.

    Another run of the same text is cheap beside a wrong alarm: a busy machine's caches and clock count with the time,
    collecting garbage does not.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(3):
            started = time.process_time()
            use.apply(text)
            best = min(best, time.process_time() - started)
            if best < STRICT:
                break
    finally:
        gc.enable()
    return best


@pytest.mark.parametrize("use", uses(), ids=lambda use: f"{use.place}.{use.method}")
def test_a_pattern_takes_texts_in_a_time_that_grows_as_they_do(use: Use) -> None:
    slow = [(text[:30], taken) for text in texts(use.pattern, LENGTH) if (taken := seconds(use, text)) > STRICT]
    assert slow == []


def test_a_megabyte_of_blanks_takes_no_pattern_longer_than_a_second() -> None:
    text = "a" + " " * MEGABYTE + "!"
    assert [(use.place, taken) for use in uses() if (taken := seconds(use, text)) > SECONDS] == []


@pytest.mark.parametrize("pattern", java_patterns().values(), ids=list(java_patterns()))
def test_a_pattern_for_spark_takes_texts_in_a_time_that_grows_as_they_do(pattern: str) -> None:
    # Python spells the end of a text with a capital.
    use = Use("Spark", re.compile(pattern.replace("\\z", "\\Z")), "search")
    slow = [(text[:30], taken) for text in texts(use.pattern, LENGTH) if (taken := seconds(use, text)) > STRICT]
    assert slow == []


FORMS = [
    (["*.*"], "a."),
    (["*.*.*"], "a."),
    (["*.*.*.*"], "a."),
    (["*.*.*.*.*.*.*.*"], "a."),
    (["*a*a*a*a"], "a"),
    (["**********"], "a"),
    (["*?*?*?*?"], "a"),
    (["*-*-*", "*.*.*", "*_*_*"], "a-._"),
    (["shop.*.*", "shop.*"], "shop."),
    (["*a?b*a?b*"], "ab"),
    (["*1*1*"], "1"),
]


@pytest.mark.parametrize(("allowed", "pumped"), FORMS, ids=[" ".join(allowed) for allowed, _ in FORMS])
def test_the_pattern_of_a_form_takes_a_megabyte_within_a_second(allowed: list[str], pumped: str) -> None:
    use = Use("form", re.compile(form_pattern(allowed)), "search")
    for ending in ("!", "\n", ""):
        assert seconds(use, pumped * (MEGABYTE // len(pumped)) + ending) < SECONDS


def test_a_browser_takes_the_same_megabyte_and_the_same_names() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    names = ("shop.orders", "shop.eu.orders", "a.b.c.d", "1-1", "aaba.", ".a", "a1b1")
    asked = [(form_pattern(allowed), [*names, pumped * (MEGABYTE // len(pumped)) + "!"]) for allowed, pumped in FORMS]
    code = """
        const said = JSON.parse(require("fs").readFileSync(0)).map(([pattern, texts]) => {
            const started = Date.now(), form = new RegExp(pattern, "u");
            return [texts.map(text => form.test(text)), Date.now() - started];
        });
        console.log(JSON.stringify(said));
    """
    ended = subprocess.run(
        [node, "-e", code], check=True, input=json.dumps(asked), capture_output=True, text=True, timeout=60
    )
    said = json.loads(ended.stdout)
    assert [found for found, _ in said] == [[bool(re.search(form, text)) for text in given] for form, given in asked]
    assert max(milliseconds for _, milliseconds in said) < 1_000 * SECONDS
