"""Replies of the JVM are read whole, piece by piece, and each piece is acknowledged at once."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator

import pytest

from airflow_lake_provider.spark_jobs.jvm.py4j_patches import AcknowledgingReader

needs_quick_acknowledgement = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux has it")


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        with theirs:
            yield ours, theirs


def reader_of(ours: socket.socket) -> io.BufferedReader:
    return io.BufferedReader(AcknowledgingReader(ours, ours.makefile("rb")), 64 << 10)


@pytest.mark.parametrize("size", [0, 1, 8_191, 8_192, 8_193, 65_535, 65_536, 200_000])
def test_a_reply_is_read_as_it_was_sent(connected: tuple[socket.socket, socket.socket], size: int) -> None:
    ours, theirs = connected
    reader = reader_of(ours)
    for letter in (b"a", b"b"):
        theirs.sendall(letter * size + b"\n")
        assert reader.readline() == letter * size + b"\n"


@needs_quick_acknowledgement
def test_what_comes_is_acknowledged_at_once_also_after_an_answer(
    connected: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = connected
    reader = reader_of(ours)
    for _ in range(3):
        ours.sendall(b"command\n")
        theirs.recv(100)
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        theirs.sendall(b"reply\n")
        reader.readline()
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1


def test_the_end_of_a_connection_is_an_empty_reply(connected: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = connected
    reader = reader_of(ours)
    theirs.sendall(b"half")
    theirs.close()
    assert (reader.readline(), reader.readline()) == (b"half", b"")


def test_closing_it_closes_the_stream_that_read_before(connected: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = connected
    before = ours.makefile("rb")
    reader = io.BufferedReader(AcknowledgingReader(ours, before))
    reader.close()
    assert before.closed
