"""Make py4j quicker: names are looked up once, a list is one command, and a reply is read as soon as it is there.

``sf.col("id")`` asks the JVM three times: for the class ``functions``, for its method ``col``, then for the column.
The first two answers are always the same, and a batch of change events makes some 800 columns.
``jvm.org.apache.iceberg.Files`` asks four times. Each package is looked for as a class, in all jars, and not found.
``sf.struct("id", "name")`` makes a list of Java, and adds each column to it by a command of its own.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from py4j import protocol
from py4j.clientserver import JavaClient
from py4j.java_collections import JavaArray
from py4j.java_gateway import JavaClass, JavaObject, JavaPackage
from pyspark.sql import SparkSession

# What PySpark and our modules ask for first: packages, and classes that PySpark imports.
_ROOTS = ("com", "java", "org", "py4j", "scala")
_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")


class _Remembered:
    """A package with its classes, or a class with its static methods."""

    def __init__(self, member: Any) -> None:
        self._member = member

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._member, name)
        if isinstance(member, JavaPackage):
            if name[:1].isupper():
                # A class that is not there; its jar may be added later.
                return member
            member = _Remembered(member)
        setattr(self, name, member)
        return member

    def __call__(self, *arguments: Any) -> Any:
        # PySpark reads the error of a package that is called.
        return self._member(*arguments)


def remember_lookups(spark: SparkSession) -> None:
    """Keep what the session's view of the JVM is asked for.

    An attribute of the view is found before the view asks the JVM. Other names are looked up as before.
    """
    jvm: Any = spark._jvm
    for name in (*_ROOTS, *_CLASSES):
        if name not in vars(jvm):
            setattr(jvm, name, _Remembered(getattr(jvm, name)))


# As many as ``java.util.List.of`` takes as arguments.
_MOST_ITEMS = 10
# Where a gateway's client keeps that method.
_LIST_OF = "_lake_list_of"


class _ListOfOneCommand:
    """Converts a list of columns or texts, ten items by a command."""

    def can_convert(self, value: object) -> bool:
        """Return whether the items are what a list of Java takes as they are."""
        return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(_is_item, value))

    def convert(self, items: Sequence[object], client: Any) -> Any:
        """Return the list of Java. Up to ten items it cannot be changed, and what PySpark calls with it does not."""
        list_of = vars(client).get(_LIST_OF) or vars(client).setdefault(
            _LIST_OF, JavaClass("java.util.List", client).of
        )
        parts = [list_of(*items[start : start + _MOST_ITEMS]) for start in range(0, len(items), _MOST_ITEMS)]
        if len(parts) == 1:
            return parts[0]
        whole = JavaClass("java.util.ArrayList", client)(parts[0])
        for part in parts[1:]:
            whole.addAll(part)
        return whole


def _is_item(value: object) -> bool:
    # Java takes an array for the items themselves.
    return isinstance(value, str) or (isinstance(value, JavaObject) and not isinstance(value, JavaArray))


def send_lists_at_once(spark: SparkSession) -> None:
    """Let lists of columns become lists of Java by one command, in this process.

    Java 8, which Spark 3.5 may run on, has no such list.
    """
    jvm: Any = spark._jvm
    is_done = any(isinstance(each, _ListOfOneCommand) for each in protocol.INPUT_CONVERTER)
    with suppress(protocol.Py4JError):
        if not is_done and jvm.java.util.List.of("") is not None:
            protocol.register_input_converter(_ListOfOneCommand(), prepend=True)


_BUFFER = 64 << 10
# Linux has it; elsewhere a reply comes as py4j brings it.
_QUICK = getattr(socket, "TCP_QUICKACK", None)


class AcknowledgingReader(io.RawIOBase):
    """Reads a socket, and acknowledges each piece as soon as it is there.

    :param stream: that read the socket until now; closed with this.
    """

    def __init__(self, connected: socket.socket, stream: io.IOBase) -> None:
        super().__init__()
        self._socket = connected
        self._stream = stream

    def readable(self) -> bool:
        """Return True; it cannot be written to."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what has come; 0 where the other side has closed."""
        read = self._socket.recv_into(buffer)
        # Linux forgets it with each answer. A socket that was closed meanwhile is for the next read to tell.
        with suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, int(_QUICK or 0), 1)
        return read

    def close(self) -> None:
        """Close the stream, too."""
        with suppress(OSError):
            self._stream.close()
        super().close()


def reply_promptly(spark: SparkSession) -> None:
    """Read the replies of the session's JVM so, on the connections that there are and on those to come."""
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    # With PYSPARK_PIN_THREAD=false it is of another class, whose connections are shared.
    if _QUICK is None or not isinstance(client, JavaClient) or "_create_new_connection" in vars(client):
        return
    create = client._create_new_connection

    def create_prompt() -> Any:
        return _prompt(create())

    client._create_new_connection = create_prompt
    # The thread's own, which waits for no reply now.
    if (connection := client.get_thread_connection()) is not None:
        _prompt(connection)


def _prompt(connection: Any) -> Any:
    connection.stream = io.BufferedReader(AcknowledgingReader(connection.socket, connection.stream), _BUFFER)
    return connection
