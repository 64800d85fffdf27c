"""Records of XML: one of each element of the row tag, which Spark 4 reads.

Of an element that a record has more than once Spark's reader keeps the last one, unless its column is an array. So each
is read as an array, and a second value is refused. An attribute and an element of one name share a column there: each
is read by itself. A document that ends between two records, and one without any element of the row tag, it takes for
sound. Of a record inside of another one it reads the outer one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.text_options import by_lower_name
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan
from airflow_lake_provider.spark_jobs.sources.faulty_lines import (
    HAS_TEXT,
    INNER_RECORD,
    NIL,
    NO_RECORD,
    OPEN_DOCUMENT,
    REPEATED,
)
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types, parse_ddl
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, matches, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import types_inside

# A name may have letters of any language, which \w of Java is not.
_PREFIX = r"(?:[^\s<>/:!?][^\s<>/:]*+:)?"
_NAME = r"[^\s<>/!?][^\s<>/]*+"
# What may stand before the first element and behind the last.
_BETWEEN = r"(?:\s++|<\?.*?\?>|<!--.*?-->)*+"
_ROOT = rf"(?s)^\ufeff?{_BETWEEN}(?:<!DOCTYPE[^>\[]*+(?:\[.*?\]\s*+)?>)?{_BETWEEN}<({_NAME})"
# What tells no tag, and a part of a tag: a value in quotes may have its end inside.
_NO_TAG = r"[^<]++|<!--.*?-->|<!\[CDATA\[.*?\]\]>"
_PARTS = r"""(?:[^<>"']|"[^"]*+"|'[^']*+')*+"""
# Around the name of the root.
_CLOSED = (r"(?s)</\Q", rf"\E\s*+>{_BETWEEN}$")
_END = 10_000
# Spark's own.
_ATTRIBUTE = "_"
# Before the name of an attribute as it is read: no name of an element has a blank.
_OF_ATTRIBUTE = "_lake_attribute "
# From the name of a field to the SQL of its value.
Values = Callable[[str], str]


def xml_schema(
    spark: SparkSession, source: Files, paths: list[str], options: Mapping[str, str], table_schema: StructType | None
) -> StructType:
    """Return the schema to read XML with: declared, else inferred with the table's types of plain values.

    :raises BadInputError: it has a map, whose keys may be there twice; or no document has a record.
    """
    schema = parse_ddl(source.schema) if source.schema else _inferred(spark, source, paths, options, table_schema)
    maps = [f.name for f in schema if any(isinstance(kind, MapType) for kind in types_inside(f.dataType))]
    if maps:
        raise BadInputError(f"columns {maps} of XML of {source.path!r} are MAP; declare a STRUCT of the elements")
    return schema


def _inferred(
    spark: SparkSession, source: Files, paths: list[str], options: Mapping[str, str], table_schema: StructType | None
) -> StructType:
    try:
        inferred = spark.read.format("xml").options(**options).load(paths).schema
    except AnalysisException as error:
        if "QUERY_ONLY_CORRUPT_RECORD_COLUMN" not in str(error):
            raise
        inferred = StructType()
    fields = [field for field in inferred if field.name != UNPARSABLE]
    if not fields:
        raise BadInputError(
            f"no document of {source.path!r} has an element <{row_tag_of(options)}> that can be read; "
            "say which element is a record with options={'rowTag': ...}, prefix included, or give the source a schema"
        )
    types = declared_types(None, table_schema)
    # A value with attributes is a struct, and nobody has said to leave them out.
    return StructType(
        [
            StructField(f.name, f.dataType if _is_nested(f.dataType) else types.get(f.name.lower(), f.dataType))
            for f in fields
        ]
    )


def row_tag_of(options: Mapping[str, str]) -> str:
    """Return the name of the elements that are records."""
    return by_lower_name(options)["rowtag"]


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, (ArrayType, MapType, StructType))


@dataclass(frozen=True, kw_only=True)
class XmlNames:
    """Names of columns that may be attributes: they begin with a prefix, in any case, as Spark compares names."""

    attribute: str = _ATTRIBUTE

    @classmethod
    def of(cls, options: Mapping[str, str]) -> XmlNames:
        """Return those of a reader's options, by lower-case name."""
        return cls(attribute=options.get("attributeprefix", _ATTRIBUTE))

    def options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return options of a reader by which no attribute has the name of an element."""
        others = {name: value for name, value in options.items() if name.lower() != "attributeprefix"}
        return {**others, "attributePrefix": _OF_ATTRIBUTE}

    def read_with(self, columns: StructType) -> StructType:
        """Return the columns with an array in the place of each element, and each attribute by itself."""
        return StructType([each for field in columns for each in self._read(field)])

    def scan(self, rows: DataFrame, columns: StructType) -> Scan:
        """Return the rows with one value of each column; a record with a second one is unparsable.

        :param rows: read :meth:`read_with` these columns, by :meth:`options`.
        """
        values = [f"{self._single(quoted_name, f)} AS {quoted_name(f.name)}" for f in columns]
        repeated = [(f.name, list(self._repeated(quoted_name, f))) for f in columns]
        cases = " ".join(
            f"WHEN {any_of(conditions)} THEN {text_literal(f'{REPEATED}, in {name}')}"
            for name, conditions in repeated
            if conditions
        )
        fault = f"coalesce({UNPARSABLE}, {f'CASE {cases} END' if cases else 'NULL'}) AS {UNPARSABLE}"
        return Scan(rows=rows, columns=[sf.expr(each) for each in (*values, fault)])

    def _attribute(self, name: str) -> str | None:
        """Return the name by which an attribute is read that a column may have; None where it has none."""
        # The column of texts may be one, too: _VALUE is that of <price VALUE="5"/>.
        prefix, own = name[: len(self.attribute)], name[len(self.attribute) :]
        return f"{_OF_ATTRIBUTE}{own}" if own and prefix.lower() == self.attribute.lower() else None

    def _read(self, field: StructField) -> Iterator[StructField]:
        kind = self._inside(field.dataType)
        yield StructField(field.name, kind if isinstance(kind, ArrayType) else ArrayType(kind))
        if (attribute := self._attribute(field.name)) is not None:
            yield StructField(attribute, StringType() if _is_nested(kind) else kind)

    def _inside(self, kind: DataType) -> DataType:
        match kind:
            case StructType():
                return self.read_with(kind)
            case ArrayType():
                return ArrayType(self._inside(kind.elementType))
        return kind

    def _single(self, values: Values, field: StructField, depth: int = 0) -> str:
        kind, element = field.dataType, values(field.name)
        made = self._made(element if isinstance(kind, ArrayType) else f"get({element}, 0)", kind, depth)
        attribute = self._attribute(field.name)
        return made if attribute is None or _is_nested(kind) else f"coalesce({values(attribute)}, {made})"

    def _made(self, value: str, kind: DataType, depth: int) -> str:
        match kind:
            case StructType():
                inner = (f"{self._single(_fields(value), f, depth)} AS {quoted_name(f.name)}" for f in kind)
                return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(inner)}) END"
            case ArrayType() if _is_nested(kind.elementType):
                item = f"x{depth}"
                return f"transform({value}, {item} -> {self._made(item, kind.elementType, depth + 1)})"
        return value

    def _repeated(self, values: Values, field: StructField, depth: int = 0) -> Iterator[str]:
        """Yield conditions that a column has more than one value."""
        inner, value = field.dataType, values(field.name)
        if (attribute := self._attribute(field.name)) is not None:
            more = "true" if _is_nested(inner) else f"coalesce(size({value}), 0) > 0"
            yield f"{values(attribute)} IS NOT NULL AND {more}"
        if isinstance(inner, ArrayType):
            inner, item = inner.elementType, f"x{depth}"
            if isinstance(inner, StructType):
                conditions = any_of(each for f in inner for each in self._repeated(_fields(item), f, depth + 1))
                yield f"coalesce(exists({value}, {item} -> {conditions}), false)"
            return
        yield f"coalesce(size({value}), 0) > 1"
        if isinstance(inner, StructType):
            for each in inner:
                yield from self._repeated(_fields(f"get({value}, 0)"), each, depth)


def _fields(value: str) -> Values:
    """Return the SQL of the fields of a struct, which is given as SQL."""
    return lambda name: f"{value}.{quoted_name(name)}"


def faulty_documents(
    spark: SparkSession, paths: Sequence[str], options: Mapping[str, str], columns: StructType
) -> Scan:
    """Return a scan of the documents that Spark's reader would take, and read in part.

    :param options: of the reader.
    :param columns: of the records. Where one of them, or a field, is called as the records are, they may be nested.
    """
    kept = {name: value for name, value in options.items() if "." in name}
    is_wide = "hex(substring(CAST(value AS BINARY), 1, 2)) IN ('FEFF', 'FFFE')"
    text = f"CASE WHEN {is_wide} THEN decode(CAST(value AS BINARY), 'UTF-16') ELSE value END"
    documents = spark.read.format("text").options(**kept, wholetext="true").load(list(paths)).filter(HAS_TEXT)
    ignores_prefix = by_lower_name(options).get("ignorenamespace", "").strip().lower() == "true"
    fault = _fault("value", row_tag_of(options), columns, ignores_prefix=ignores_prefix)
    # Each is looked at more than once.
    texts = documents.withColumn("value", sf.expr(text))
    return Scan(
        rows=texts,
        columns=[sf.expr(fault).alias(UNPARSABLE)],
        where=f"{UNPARSABLE} IS NOT NULL",
    )


def _fault(document: str, row_tag: str, columns: StructType, *, ignores_prefix: bool) -> str:
    name = rf"{_PREFIX if ignores_prefix else ''}\Q{row_tag}\E"
    root = f"regexp_extract({document}, {text_literal(_ROOT)}, 1)"
    last = f"right({document}, {_END})"
    closed = f"rlike({last}, concat({text_literal(_CLOSED[0])}, {root}, {text_literal(_CLOSED[1])}))"
    empty = matches(last, rf"(?s)^[^<]*+{_BETWEEN}<{_NAME}[^<>]*+(?<=/)>{_BETWEEN}$")
    tag = matches(document, rf"<{name}[\s/>]")
    more = matches(document, rf"(?s)<{_NAME}(?:\s[^<>]*+)?>.*?<{_NAME}")
    nil = matches(document, r":nil\s*+=\s*+[\"'](?:true|1)[\"']")
    is_inner = "false" if row_tag.lower() in _names(columns) else matches(document, _inner_record(name))
    return (
        f"CASE WHEN {root} = '' OR NOT ({closed} OR {empty}) THEN {text_literal(OPEN_DOCUMENT)} "
        f"WHEN NOT {tag} AND {more} THEN {text_literal(NO_RECORD)} WHEN {nil} THEN {text_literal(NIL)} "
        f"WHEN {is_inner} THEN {text_literal(INNER_RECORD)} END"
    )


def _names(columns: StructType) -> set[str]:
    """Return the names of columns, and of the fields inside them, in lower case."""
    return {name.lower() for kind in types_inside(columns) if isinstance(kind, StructType) for name in kind.names}


def _inner_record(name: str) -> str:
    """Return the pattern of a document that has a record inside of another one.

    :param name: pattern of the name of a record.
    """
    begin, other = rf"<{name}(?=[\s/>]){_PARTS}", rf"<(?!/?{name}[\s/>]|!--|!\[CDATA\[)"
    inside = rf"(?:{_NO_TAG}|{other})*+"
    record = rf"{begin}(?:(?<=/)>|(?<!/)>{inside}</{name}\s*+>)"
    return rf"(?s)^(?:{_NO_TAG}|{other}|{record})*+{begin}(?<!/)>{inside}<{name}[\s/>]"
