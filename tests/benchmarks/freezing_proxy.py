"""A TCP proxy on loopback that can stop passing bytes on, and counts its connections."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class FreezingProxy:
    """Pass connections on to a port of this machine, in a thread of its own.

    :param target: port to pass on to.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._passing = asyncio.Event()
        self._passing.set()
        self._loop = asyncio.new_event_loop()
        self.port = 0
        self.open = 0
        self.most_open = 0
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def freeze(self) -> None:
        """Pass nothing on: who waits for an answer waits on. New connections are made, and hear nothing."""
        self._loop.call_soon_threadsafe(self._passing.clear)

    def thaw(self) -> None:
        """Pass on what came meanwhile, and what comes."""
        self._loop.call_soon_threadsafe(self._passing.set)

    def stop(self) -> None:
        """End the thread and its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        self._loop.set_exception_handler(lambda *_: None)
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ways = [self._pass_on(reader, far_writer), self._pass_on(far_reader, writer)]
            await asyncio.gather(*ways)
        finally:
            self.open -= 1

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._passing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
