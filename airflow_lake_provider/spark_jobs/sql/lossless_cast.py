"""Casts that give a value only where it stays the same one; Spark's own round, truncate and cut off without a word.

Keys of rows to delete need them. A value of a batch that does not fit its column fails where rows are staged.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from airflow_lake_provider.spark_jobs.sql.older_pyspark import try_cast

# Above, a float stands for more than one integer: 2^24 and 2^53 are the widths of the two significands (IEEE 754).
_EXACT_BELOW: dict[DataType, int] = {FloatType(): 2**24, DoubleType(): 2**53}
_WIDE = DecimalType(38, 18)


def lossless_cast(value: Column, given: DataType, wanted: DataType) -> Column:
    """Return the value as ``wanted``; NULL where there is no such value, or only another one near it.

    :param given: type of ``value``.
    """
    if given == wanted:
        return value
    fitted = try_cast(value, wanted)
    is_same = _is_same_text(value, fitted, wanted) if isinstance(given, StringType) else _is_same(value, fitted, given)
    if given in _EXACT_BELOW and isinstance(wanted, (IntegralType, DecimalType)):
        is_same = is_same & (sf.abs(value) < _EXACT_BELOW[given])
    return sf.when(is_same, fitted)


def _is_same(value: Column, fitted: Column, given: DataType) -> Column:
    return try_cast(fitted, given).eqNullSafe(value)


def _is_same_text(text: Column, fitted: Column, wanted: DataType) -> Column:
    """Tell whether a value is what its text says, in any of the forms that a value has as text."""
    match wanted:
        case DecimalType():
            # What was taken is not given back: with \s* in place of \s*+ a long run of blanks takes hours.
            return text.rlike(rf"^\s*+[+-]?+\d*+(\.\d{{0,{wanted.scale}}}+0*+)?+\s*+$")
        case FloatType() | DoubleType():
            # By their shortest text: 0.1 is 0.1, though no float is.
            return try_cast(fitted.cast("string"), _WIDE).eqNullSafe(try_cast(text, _WIDE))
        case DateType():
            return fitted.cast("string") == sf.trim(text)
        case TimestampType() | TimestampNTZType():
            return ~text.rlike(r"\.\d{6}\d*[1-9]")
    # The others are parsed as a whole or not at all.
    return sf.lit(True)
