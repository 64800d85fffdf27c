"""Replies of the JVM that come at once, however long they are.

A reply of 9 KB took 44 ms, one of 8 KB 0.1 ms. py4j writes it in pieces of 8 KiB. After the first, the JVM waits until
that is acknowledged (Nagle's algorithm, RFC 896), and Linux delays this by 40 ms as Python has nothing to send. The
metadata of a table is such a reply, and so is the schema of a wide one.
"""

from __future__ import annotations

import io
import socket
from contextlib import suppress
from typing import Any

from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession

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
