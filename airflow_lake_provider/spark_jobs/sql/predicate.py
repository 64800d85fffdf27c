"""A ``where`` that may come from people: comparisons of a table's columns with constants, judged by its parsed tree.

Spark runs static methods of Java while it analyses an expression, and shell commands while it runs one. So the tree is
judged before anything is looked up. What is not listed here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import PREDICATE, shown, unfit_for_predicate
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.sql.parsed_tree import (
    FILTERED,
    ForeignKindError,
    Node,
    ParsedTree,
    UnparsedError,
    parse_expression,
    read_tree,
)

MAX_DEPTH = 200
_COMPARISONS = ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")
_PLAIN = frozenset(("And", "Or", "Not", *_COMPARISONS, "IsNull", "IsNotNull", "Like", "Literal", "UnaryMinus"))
_CONSTANT = frozenset(("Literal", "UnaryMinus", "Cast"))
_BUILT_IN = "org.apache.spark.sql.catalyst.expressions.Between"
_UNRESOLVED = "org.apache.spark.sql.catalyst.analysis."
_ALLOWED = _PLAIN | {"Cast", "In", f"{_UNRESOLVED}UnresolvedAttribute", f"{_UNRESOLVED}UnresolvedFunction"}
_CAST_TYPES = re.compile(
    r"boolean|byte|short|integer|long|float|double|decimal\(\d+,\d+\)|string|binary|date|timestamp|timestamp_ntz"
)
# What a call of ``x BETWEEN a AND b`` has, and no other call: not DISTINCT, no FILTER, no order.
_BETWEEN = {
    "isDistinct": False,
    "ignoreNulls": False,
    "orderingWithinGroup": [],
    "isInternal": False,
}
_WORDS = {
    "Alias": "a second expression behind the first",
    "Exists": "a subquery",
    "InSubquery": "a subquery",
    "ListQuery": "a subquery",
    "ScalarSubquery": "a subquery",
    "LambdaFunction": "a lambda",
    FILTERED: FILTERED,
    f"{_UNRESOLVED}UnresolvedStar": "a star",
    f"{_UNRESOLVED}UnresolvedExtractValue": "an element of a list or map",
    f"{_UNRESOLVED}NamedParameter": "a parameter",
    f"{_UNRESOLVED}PosParameter": "a parameter",
    f"{_UNRESOLVED}ExpressionWithUnresolvedIdentifier": "IDENTIFIER",
}

# A text is cast to the type of the column that it is compared with. What of it that drops, without an error.
_DATE_THEN = r"(?s)\s*[+-]?\d{4,7}-\d{1,2}-\d{1,2}"
_ZONE = r"\s*(?:(?:Z|UTC|[+-]\d{1,2}(?::?\d{2})?)\s*)?"
_TIME_OF_DAY = re.compile(rf"{_DATE_THEN}[T ](?!\s*$)(?!0{{1,2}}:00(?::00(?:\.0*)?)?{_ZONE}$)")
_ZONE_BEHIND = re.compile(rf"{_DATE_THEN}[T ][\d:.]*\s*[^\d:.\s]")
_NANOSECONDS = re.compile(rf"{_DATE_THEN}[T ][\d:]+\.\d{{6}}0*[1-9]")
_DROPPED = {
    "date": (
        _TIME_OF_DAY.match,
        "a time of day, which Spark drops beside a DATE column; write DATE '2026-01-02'",
    ),
    "timestamp_ntz": (
        _ZONE_BEHIND.match,
        "a time zone, which Spark drops beside a TIMESTAMP_NTZ column; write the local time without it",
    ),
    "timestamp": (_NANOSECONDS.match, "nanoseconds, which Spark drops; write microseconds"),
}


class _RefusedError(Exception):
    """A part that is not allowed.

    :param part: in words that quote nothing of the text.
    :param detail: names it by the text.
    """

    def __init__(self, part: str, detail: str = "") -> None:
        super().__init__(part)
        self.part, self.detail = part, detail


def check_predicate(
    spark: SparkSession,
    where: str,
    schema: StructType,
    table: str,
    *,
    is_secret: bool = False,
    otherwise: str = "",
) -> None:
    """Refuse a predicate that is more than comparisons of columns with constants; nothing of it is analysed or run.

    :param schema: of the rows that it is about.
    :param table: name for messages.
    :param is_secret: keep the text out of messages.
    :param otherwise: how to have it taken nevertheless; end of the message.
    :raises InvalidSpecError: it names what is refused and what is allowed.
    """
    try:
        _check(spark, where, schema)
    except _RefusedError as refused:
        what = "its text is withheld" if is_secret else f"got where={shown(where)}"
        detail = "" if is_secret else refused.detail
        raise InvalidSpecError(
            f"{table}: where was refused for {refused.part}{detail}, {what}. {PREDICATE}{otherwise}"
        ) from None


def check_expression(spark: SparkSession, where: str, table: str, *, is_secret: bool = False) -> None:
    """Refuse a predicate that is not one expression; which one is its author's business.

    :raises InvalidSpecError: it does not parse.
    """
    try:
        parse_expression(spark, where)
    except UnparsedError as error:
        given = "and its text is withheld" if is_secret else f"got where={shown(where)}: {error}"
        raise InvalidSpecError(f"{table}: where is not one SQL expression, {given}") from None


def _check(spark: SparkSession, where: str, schema: StructType) -> None:
    unfit = unfit_for_predicate(where)
    if unfit is not None:
        raise _RefusedError(unfit)
    try:
        tree = read_tree(spark, where, _ALLOWED)
    except UnparsedError as error:
        raise _RefusedError("a text that is not one expression", f" ({error})") from None
    except ForeignKindError as error:
        raise _RefusedError(_in_words(str(error))) from None
    if tree.depth > MAX_DEPTH:
        raise _RefusedError(f"expressions inside of each other more than {MAX_DEPTH} times")
    waiting = [tree.root]
    while waiting:
        node = waiting.pop()
        _check_node(spark, tree, node, schema)
        waiting += node.children


def _check_node(spark: SparkSession, tree: ParsedTree, node: Node, schema: StructType) -> None:
    if len(node.children) > 1 and node.kind not in ("And", "Or"):
        _check_times(tree, node, schema)
    if node.kind in _PLAIN:
        return
    if node.kind == f"{_UNRESOLVED}UnresolvedAttribute":
        _check_name(spark, tree.name_of(node), schema)
    elif node.kind == "Cast":
        if not _CAST_TYPES.fullmatch(str(node.fields["dataType"])):
            raise _RefusedError("a CAST to a type that is not plain", f" ({node.fields['dataType']})")
    elif node.kind == "In":
        if not all(_is_constant(value) for value in node.children[1:]):
            raise _RefusedError("IN with something else than constants")
    elif not _is_between(tree, node) or _is_replaced(spark, "between"):
        raise _RefusedError("a function", f" ({'.'.join(tree.name_of(node))})")


def _check_times(tree: ParsedTree, node: Node, schema: StructType) -> None:
    kinds = {_kind_of(tree, child, schema) for child in node.children}
    literals = [child.fields for child in node.children if child.kind == "Literal"]
    texts = [str(each["value"]) for each in literals if each["dataType"] == "string"]
    for kind in sorted(kinds & _DROPPED.keys()):
        drops, words = _DROPPED[kind]
        for text in texts:
            if drops(text):
                raise _RefusedError(f"a text with {words}", f" ({shown(text)})")


def _kind_of(tree: ParsedTree, node: Node, schema: StructType) -> str:
    """Return the name of the type of a column, or of what one is cast to."""
    if node.kind == "Cast":
        return str(node.fields["dataType"])
    is_name = node.kind == f"{_UNRESOLVED}UnresolvedAttribute"
    kind = _type_of(tree.name_of(node), schema, str.lower) if is_name else None
    return "" if kind is None else kind.simpleString()


def _in_words(kind: str) -> str:
    return _WORDS.get(kind, f"an expression of the kind {kind.rpartition('.')[2]}")


def _is_between(tree: ParsedTree, node: Node) -> bool:
    fields = {name: value for name, value in node.fields.items() if name not in ("arguments", "nameParts")}
    takes_three = len(node.children) == len(node.fields["arguments"]) == 3
    return fields == _BETWEEN and takes_three and tree.name_of(node) == ("between",)


def _check_name(spark: SparkSession, parts: tuple[str, ...], schema: StructType) -> None:
    # A name that is no column may be a function without parentheses, or a variable of the session.
    exact = spark.conf.get("spark.sql.caseSensitive") == "true"
    if _type_of(parts, schema, str if exact else str.lower) is None:
        name = ".".join(parts)
        raise _RefusedError("a name that is no column of the table", f" ({name}; it has {', '.join(schema.names)})")


def _type_of(parts: tuple[str, ...], schema: StructType, spelling: Callable[[str], str]) -> DataType | None:
    current: DataType | None = schema
    for part in parts:
        if not isinstance(current, StructType):
            return None
        current = next((f.dataType for f in current.fields if spelling(f.name) == spelling(part)), None)
    return current


def _is_constant(node: Node) -> bool:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.kind not in _CONSTANT:
            return False
        waiting += one.children
    return True


def _is_replaced(spark: SparkSession, function: str) -> bool:
    """Tell whether the session has a function of its own under the name of a built-in one."""
    session = java_session(spark)
    jvm = jvm_of(spark)
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(function)
    registered = session.sessionState().functionRegistry().lookupFunction(identifier)
    return not registered.isDefined() or not str(registered.get().getClassName()).startswith(_BUILT_IN)
