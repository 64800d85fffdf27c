"""Records of XML: one of each element of the row tag, which Spark 4 reads.

Of an element that a record has more than once Spark's reader keeps the last one, unless its column is an array. So each
is read as an array, and a second value is refused. A document that ends between two records, and one without any
element of the row tag, it takes for sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan
from airflow_lake_provider.spark_jobs.sources.faulty_lines import HAS_TEXT, NIL, NO_RECORD, OPEN_DOCUMENT, REPEATED
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types, parse_ddl
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, matches, quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.nested_types import types_inside

_PREFIX = r"(?:[\w.-]++:)?"
_NAME = r"[\w.:-]++"
# What may stand before the first element and behind the last.
_BETWEEN = r"(?:\s++|<\?.*?\?>|<!--.*?-->)*+"
_ROOT = rf"(?s)^\ufeff?{_BETWEEN}(?:<!DOCTYPE[^>\[]*+(?:\[.*?\]\s*+)?>)?{_BETWEEN}<({_NAME})"
# Around the name of the root.
_CLOSED = (r"(?s)</\Q", rf"\E\s*+>{_BETWEEN}$")
_END = 10_000
# Spark's own.
_ATTRIBUTE, _VALUE = "_", "_VALUE"


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
    return {name.lower(): value for name, value in options.items()}["rowtag"]


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, (ArrayType, MapType, StructType))


@dataclass(frozen=True, kw_only=True)
class XmlNames:
    """Names that tell attributes and texts of an element from elements in it."""

    attribute: str = _ATTRIBUTE
    value: str = _VALUE

    @classmethod
    def of(cls, options: Mapping[str, str]) -> XmlNames:
        """Return those of a reader's options, by lower-case name."""
        return cls(attribute=options.get("attributeprefix", _ATTRIBUTE), value=options.get("valuetag", _VALUE))

    def read_with(self, columns: StructType) -> StructType:
        """Return the columns with an array in the place of each element that may be there twice."""
        return StructType([StructField(f.name, self._read(f)) for f in columns])

    def scan(self, rows: DataFrame, columns: StructType) -> Scan:
        """Return the rows with one value of each element; a record with a second one is unparsable.

        :param rows: read :meth:`read_with` these columns.
        """
        values = [f"{self._single(quoted_name(f.name), f)} AS {quoted_name(f.name)}" for f in columns]
        repeated = [(f.name, list(self._repeated(quoted_name(f.name), f))) for f in columns]
        cases = " ".join(
            f"WHEN {any_of(conditions)} THEN {text_literal(f'{REPEATED}, in {name}')}"
            for name, conditions in repeated
            if conditions
        )
        fault = f"coalesce({UNPARSABLE}, {f'CASE {cases} END' if cases else 'NULL'}) AS {UNPARSABLE}"
        return Scan(rows=rows, columns=[sf.expr(each) for each in (*values, fault)])

    def _is_repeatable(self, field: StructField) -> bool:
        # XML itself has an attribute once.
        is_attribute = field.name.startswith(self.attribute) and field.name != self.value
        return not is_attribute and not isinstance(field.dataType, ArrayType)

    def _read(self, field: StructField) -> DataType:
        kind = self._inside(field.dataType)
        return ArrayType(kind) if self._is_repeatable(field) else kind

    def _inside(self, kind: DataType) -> DataType:
        match kind:
            case StructType():
                return self.read_with(kind)
            case ArrayType():
                return ArrayType(self._inside(kind.elementType))
        return kind

    def _single(self, value: str, field: StructField, depth: int = 0) -> str:
        if self._is_repeatable(field):
            return self._made(f"get({value}, 0)", field.dataType, depth)
        return self._made(value, field.dataType, depth)

    def _made(self, value: str, kind: DataType, depth: int) -> str:
        match kind:
            case StructType():
                inner = (f"{self._single(_field(value, f), f, depth)} AS {quoted_name(f.name)}" for f in kind)
                return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(inner)}) END"
            case ArrayType() if _is_nested(kind.elementType):
                item = f"x{depth}"
                return f"transform({value}, {item} -> {self._made(item, kind.elementType, depth + 1)})"
        return value

    def _repeated(self, value: str, field: StructField, depth: int = 0) -> Iterator[str]:
        """Yield conditions that an element is there twice."""
        inner = field.dataType
        if self._is_repeatable(field):
            yield f"coalesce(size({value}), 0) > 1"
            value = f"get({value}, 0)"
        elif isinstance(inner, ArrayType):
            inner, item = inner.elementType, f"x{depth}"
            if isinstance(inner, StructType):
                conditions = any_of(each for f in inner for each in self._repeated(_field(item, f), f, depth + 1))
                yield f"coalesce(exists({value}, {item} -> {conditions}), false)"
            return
        if isinstance(inner, StructType):
            for each in inner:
                yield from self._repeated(_field(value, each), each, depth)


def _field(value: str, field: StructField) -> str:
    return f"{value}.{quoted_name(field.name)}"


def faulty_documents(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> Scan:
    """Return a scan of the documents that Spark's reader would take, and read in part.

    :param options: of the reader.
    """
    kept = {name: value for name, value in options.items() if "." in name}
    is_wide = "hex(substring(CAST(value AS BINARY), 1, 2)) IN ('FEFF', 'FFFE')"
    text = f"CASE WHEN {is_wide} THEN decode(CAST(value AS BINARY), 'UTF-16') ELSE value END"
    documents = spark.read.format("text").options(**kept, wholetext="true").load(list(paths)).filter(HAS_TEXT)
    lower = {name.lower(): value.strip().lower() for name, value in options.items()}
    fault = _fault("value", row_tag_of(options), ignores_prefix=lower.get("ignorenamespace") == "true")
    # Each is looked at more than once.
    texts = documents.withColumn("value", sf.expr(text))
    return Scan(
        rows=texts,
        columns=[sf.expr(fault).alias(UNPARSABLE)],
        where=f"{UNPARSABLE} IS NOT NULL",
    )


def _fault(document: str, row_tag: str, *, ignores_prefix: bool) -> str:
    name = rf"{_PREFIX if ignores_prefix else ''}\Q{row_tag}\E"
    root = f"regexp_extract({document}, {text_literal(_ROOT)}, 1)"
    last = f"right({document}, {_END})"
    closed = f"rlike({last}, concat({text_literal(_CLOSED[0])}, {root}, {text_literal(_CLOSED[1])}))"
    empty = matches(last, rf"(?s)^[^<]*+{_BETWEEN}<{_NAME}[^<>]*+(?<=/)>{_BETWEEN}$")
    tag = matches(document, rf"<{name}[\s/>]")
    more = matches(document, rf"(?s)<{_NAME}(?:\s[^<>]*+)?>.*?<{_NAME}")
    nil = matches(document, r":nil\s*+=\s*+[\"'](?:true|1)[\"']")
    return (
        f"CASE WHEN {root} = '' OR NOT ({closed} OR {empty}) THEN {text_literal(OPEN_DOCUMENT)} "
        f"WHEN NOT {tag} AND {more} THEN {text_literal(NO_RECORD)} WHEN {nil} THEN {text_literal(NIL)} END"
    )
