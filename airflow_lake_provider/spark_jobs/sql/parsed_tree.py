"""Expressions as Spark's parser leaves them: nothing is looked up, analysed or run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError, java_names
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of, statement_loggers


@dataclass
class Node:
    """One expression.

    :param kind: name of its class in Spark, without its package where that is one of Catalyst's expressions.
    :param place: number in the tree, from the root downwards.
    :param fields: what Spark writes of it as JSON.
    """

    kind: str
    place: int
    fields: dict[str, Any]
    children: list[Node] = field(default_factory=list)


class UnparsedError(Exception):
    """The text is no expression; the message is of Spark and quotes it."""


class ForeignKindError(Exception):
    """The tree has an expression of a kind that was not to be read; the message is its kind."""


@dataclass(frozen=True)
class ParsedTree:
    """A parsed text.

    :param java: ``org.apache.spark.sql.catalyst.expressions.Expression``.
    :param root: the same, read in one call.
    :param depth: levels of the tree.
    """

    java: Any
    root: Node
    depth: int

    def name_of(self, node: Node) -> tuple[str, ...]:
        """Return the parts of the name of a column or function that is not looked up yet.

        How many of them are in the JSON is a setting, ``spark.sql.debug.maxToStringFields``.
        """
        text = str(node.fields["nameParts"])
        if ", " not in text and not text.startswith("[... "):
            return (text[1:-1],)
        return tuple(str(self.java.apply(node.place).nameParts().mkString("\0")).split("\0"))


def parse_expression(spark: SparkSession, text: str) -> Any:
    """Return the ``Expression`` of a text that is one expression from beginning to end.

    :raises UnparsedError: it is not, or is nested too deeply for Spark's parser.
    """
    return _parsed(spark, "parseExpression", text)


def parse_statement(spark: SparkSession, text: str) -> Any:
    """Return the ``LogicalPlan`` of a text that is one statement; errors as of :func:`parse_expression`."""
    return _parsed(spark, "parsePlan", text)


def _parsed(spark: SparkSession, method: str, text: str) -> Any:
    parser = java_session(spark).sessionState().sqlParser()
    with silenced():
        try:
            return getattr(parser, method)(text)
        # A number of more digits than a DECIMAL has is an ArithmeticException of the parser.
        except PySparkException as error:
            raise UnparsedError(message_of(error).strip().splitlines()[0]) from None
        except JavaError as error:
            raise UnparsedError(java_names(error)[0]) from None


def has_subquery(spark: SparkSession, expression: Any) -> bool:
    """Tell whether an ``Expression``, parsed or analysed, reads other rows than those it is evaluated on."""
    jvm = jvm_of(spark)
    return bool(jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(expression))


def read_tree(spark: SparkSession, text: str, kinds: Collection[str]) -> ParsedTree:
    """Parse a text and read its tree.

    :param kinds: the kinds of expressions that it may have. Others are not read: as JSON a CASE takes twice the space
        for each that is inside of it.
    :raises UnparsedError: it cannot be parsed, or read.
    :raises ForeignKindError: it has an expression of another kind.
    """
    java = parse_expression(spark, text)
    try:
        foreign = sorted(_kind(name) for name in kinds_in(spark, java) if _kind(name) not in kinds)
        if foreign:
            raise ForeignKindError(foreign[0])
        listed = json.loads(str(java.toJSON()))
    except (JavaError, ValueError) as error:
        raise UnparsedError(f"its tree cannot be read: {type(error).__name__}") from None
    root, depth = _tree(listed)
    return ParsedTree(java, root, depth)


def _tree(listed: list[dict[str, Any]]) -> tuple[Node, int]:
    """Return the root of nodes that are listed in the order of a walk from the top, and how many levels there are."""
    nodes = [Node(_kind(one.pop("class")), place, one) for place, one in enumerate(listed)]
    waiting: list[tuple[Node, int]] = []
    deepest = 0
    for node in nodes:
        if waiting:
            waiting[-1][0].children.append(node)
        waiting.append((node, int(node.fields.pop("num-children"))))
        deepest = max(deepest, len(waiting))
        while waiting and len(waiting[-1][0].children) == waiting[-1][1]:
            waiting.pop()
    return nodes[0], deepest


def _kind(name: str) -> str:
    return name.removeprefix("org.apache.spark.sql.catalyst.expressions.")


@contextmanager
def silenced() -> Iterator[None]:
    """Keep PySpark from logging the texts of statements that fail."""
    loggers = statement_loggers()
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


# A function with FILTER, whose JSON has the filter twice; no kind of Spark's has this name.
FILTERED = "a function with FILTER"
_FUNCTION = "org.apache.spark.sql.catalyst.analysis.UnresolvedFunction"
_OBJECT, _SCALA_FUNCTION = "java.lang.Object", "scala.Function1"


def kinds_in(spark: SparkSession, java: Any) -> list[str]:
    """Return the names of the classes of an expression and all that is below it, each once, and :data:`FILTERED`.

    :param java: ``org.apache.spark.sql.catalyst.expressions.Expression``.
    """
    names = jvm_of(spark).java.util.HashSet()
    walk = _walk(spark)
    java.foreach(walk.adding_names_to(names))
    filtered = java.exists(walk.has_filter)
    return [*map(str, names), *([FILTERED] if filtered else [])]


class _TreeWalk:
    """Functions of Scala, made of methods of Java, for the walks that trees of Spark have themselves."""

    def __init__(self, spark: SparkSession) -> None:
        self._make = method_handles(spark)

    def adding_names_to(self, names: Any) -> Any:
        """Add the name of a node's class to a ``java.util.Set``."""
        add = self._make.method("java.util.HashSet", "add", "boolean", _OBJECT)
        return self._make.instance(_SCALA_FUNCTION, self._make.then(self._class_name, add.bindTo(names)))

    @cached_property
    def has_filter(self) -> Any:
        """Tell whether a node is a function with FILTER."""
        of_function = self._make.then(
            self._make.method(_FUNCTION, "filter", "scala.Option"),
            self._make.method("scala.Option", "isDefined", "boolean"),
        )
        test = self._make.where_instance(_FUNCTION, self._make.typed(of_function, "boolean", _OBJECT))
        return self._make.instance(_SCALA_FUNCTION, test)

    @cached_property
    def _class_name(self) -> Any:
        name = self._make.then(
            self._make.method(_OBJECT, "getClass", "java.lang.Class"),
            self._make.method("java.lang.Class", "getName", "java.lang.String"),
        )
        return self._make.typed(name, _OBJECT, _OBJECT)


@once_a_driver
def _walk(spark: SparkSession) -> _TreeWalk:
    return _TreeWalk(spark)
