"""Differences between databases: their types, names and constants, and how they are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pyspark.sql.types import DataType, DecimalType, StructType

from airflow_lake_provider.contracts.errors import BadInputError, LakeProviderError

# Begins each message with which a statement of ours ends.
REFUSED = "lake refuses"
VALUE = "{}"
LARGEST_DECIMAL = 38


@dataclass(frozen=True)
class DatabaseColumn:
    """A column of a table or a query, as the driver of JDBC describes it.

    :param kind: name of its type: ``int4``, ``_int4`` for an array of it, ``bigint unsigned``.
    :param precision: of a number with a scale, or of those in an array; 0 without one.
    :param is_text: whether the driver takes the type for a text, as it does with an enumeration.
    """

    name: str
    kind: str
    precision: int = 0
    scale: int = 0
    is_text: bool = False

    @property
    def decimal(self) -> DecimalType | None:
        """Type of Spark that has exactly the values of a number; None where its values have no common scale."""
        has_scale = 0 < self.precision <= LARGEST_DECIMAL and 0 <= self.scale <= self.precision
        return DecimalType(self.precision, self.scale) if has_scale else None


@dataclass(frozen=True)
class SentValue:
    """A value on its way.

    :param sql: expression of the database.
    :param sent: type of Spark that it arrives as.
    :param made: expression of Spark that makes the value of it, with ``{}`` for what arrived.
    """

    sql: str
    sent: DataType
    made: str = VALUE


class Asked(Protocol):
    """An open connection."""

    def text(self, sql: str) -> str:
        """Return the only value of a statement, as text."""

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the few rows of a statement."""

    def execute(self, sql: str) -> None:
        """Run a statement."""


class Dialect(ABC):
    """One kind of database.

    :cvar driver: class of its driver of JDBC.
    :cvar package: Maven coordinate of the driver, without a version.
    :cvar has_shared_snapshots: whether a connection can see what another one sees.
    :cvar version: query for the version.
    :cvar properties: with which the driver opens each connection.
    :cvar number_cast: how a user makes a whole number of a column ``x``.
    :cvar text_cast: how a user makes a text of it.
    :cvar remedies: what a user may make of a value that no lake table has.
    :cvar numbers: types of whole numbers.
    :cvar widest: of these, the one that has the least values.
    :cvar times: types of dates and times that can be ordered.
    """

    driver: ClassVar[str]
    package: ClassVar[str]
    has_shared_snapshots: ClassVar[bool]
    version: ClassVar[str]
    properties: ClassVar[Mapping[str, str]] = {}
    number_cast: ClassVar[str]
    text_cast: ClassVar[str]
    remedies: ClassVar[str]
    numbers: ClassVar[Sequence[str]]
    widest: ClassVar[str]
    times: ClassVar[Sequence[str]]

    @abstractmethod
    def refuse_old(self, version: str, address: str) -> None:
        """Refuse a server that is too old.

        :param version: as the database says it.
        :raises UnsupportedError: it is.
        """

    @abstractmethod
    def begin(self, database: Asked, version: str, *, is_consistent: bool) -> str | None:
        """Make a transaction one that only reads, and return the name of its snapshot; None without one to share."""

    @abstractmethod
    def reader_start(self, snapshot: str | None) -> str:
        """Return the statement with which the connection of each reader begins."""

    @abstractmethod
    def kind(self, type_name: str) -> str:
        """Return a type as this module names it.

        :param type_name: by the driver.
        """

    @abstractmethod
    def quoted(self, name: str) -> str:
        """Return a name as the database reads it, whatever characters it has."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """Return a text as a constant, whatever the server makes of backslashes."""

    @abstractmethod
    def typed(self, value: str, kind: str) -> str:
        """Return a constant of a type of numbers or times."""

    @abstractmethod
    def below(self, value: str, microseconds: int) -> str:
        """Return the time that lies so long before a constant of a time."""

    @abstractmethod
    def as_json(self, sql: str) -> str:
        """Return a statement whose rows come as JSON: an object, or an array of them, in the first column of each."""

    @abstractmethod
    def pages(self, database: Asked, table: Sequence[str]) -> tuple[int, ...] | None:
        """Return the pages of each stored part; empty for what has none, None where there is no table."""

    @abstractmethod
    def sent(self, column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
        """Return how the values of a column are sent; None for a type that no lake table has.

        :param wanted: type of the column of the target; None without one.
        """

    @abstractmethod
    def greatest(self, relation: str, column: DatabaseColumn) -> str:
        """Return a query for ``value``, the greatest one, ``is_unfit`` and ``is_in_future``.

        :param column: of numbers or times. A time comes as ISO text, of as many digits each time.
        """

    @abstractmethod
    def has_nulls(self, relation: str, column: DatabaseColumn) -> str:
        """Return a query for ``are_there``: whether the column has no value somewhere that can be ordered."""

    @abstractmethod
    def planned_bytes(
        self, database: Asked, relation: str, table: Sequence[str] | None, columns: Sequence[str], where: str
    ) -> int:
        """Return how many bytes the database expects; 0 where it does not tell.

        :param columns: that are read; the user may have no right to others.
        """

    @abstractmethod
    def weighed_values(self, database: Asked, relation: str, column: DatabaseColumn) -> list[tuple[str, float]]:
        """Return values of a column of a table with their shares of the rows, in order; nothing without statistics."""

    @abstractmethod
    def even_values(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Return values at equal distances between the least and the greatest one, for so many ranges."""

    @abstractmethod
    def quantiles(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Return the values that part the rows into so many ranges of about as many rows."""

    @abstractmethod
    def is_own_error(self, java_name: str) -> bool:
        """Tell whether the simple name of a Java class is that of an error of this database."""

    @abstractmethod
    def error_class(self, state: str, code: int) -> type[LakeProviderError] | None:
        """Return the class of an error; None where the class of SQL's code tells it.

        :param state: SQL's code.
        :param code: of the server.
        """

    @abstractmethod
    def check(self, statement: str) -> str:
        """Return a statement that makes the database judge another one, and reads no row."""

    def sent_values(self, columns: Sequence[DatabaseColumn], types: StructType | None, what: str) -> list[SentValue]:
        """Return how the values of some columns are sent.

        :param types: columns of the target, to whose decimals a number without one is fitted; None without a target.
        :param what: is read, for messages.
        :raises BadInputError: naming the columns of types that no lake table has.
        """
        kinds = {field.name.lower(): field.dataType for field in types or ()}
        values = [self.sent(column, kinds.get(column.name.lower())) for column in columns]
        unfit = [f"{c.name} {c.kind}" for c, value in zip(columns, values, strict=True) if value is None]
        if unfit:
            raise BadInputError(
                f"{what}: no lake table has the types of {', '.join(unfit)}. Read a column as text, by "
                f"JdbcTable(sql='SELECT ..., {self.text_cast} AS x FROM ...'), or leave it out by columns=[...]"
            )
        return [value for value in values if value is not None]
