"""A broker that is slow all the time: each packet to it, and from it, comes later."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import HOST, EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.typed_commands import free_port

PACKET = 1 << 16


class Relay:
    """Relay connections to a broker and delay each packet, in order.

    Attributes:
        port: its own port.
        target_port: the broker's port; 0 while there is none.
        packets: the number of relayed packets.
    """

    def __init__(self, delay_s: float) -> None:
        self.port = free_port()
        self.target_port = 0
        self.packets = 0
        self._delay_s = delay_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        with contextlib.suppress(OSError):
            further, back = await asyncio.open_connection(HOST, self.target_port)
            ways = [self._carry(reader, back), self._carry(further, writer)]
            both = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for way in both:
                way.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            back.close()
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arriving = asyncio.ensure_future(self._arrive(under_way, writer))
        try:
            while data := await reader.read(PACKET):
                under_way.put_nowait((time.monotonic() + self._delay_s, data))
                self.packets += 1
            await under_way.join()
        finally:
            arriving.cancel()

    async def _arrive(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(due - time.monotonic(), 0))
            writer.write(data)
            await writer.drain()
            under_way.task_done()


@contextmanager
def relaying(delay_s: float) -> Iterator[Relay]:
    """Run a relay in a separate thread until the end."""
    relay = Relay(delay_s)
    loop = asyncio.new_event_loop()
    serving = asyncio.start_server(relay.serve, HOST, relay.port)
    server = loop.run_until_complete(serving)
    thread = threading.Thread(target=loop.run_forever, name="relay", daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class RelayedKafka(EmbeddedKafka):
    def __init__(self, home: Path, relay: Relay) -> None:
        super().__init__(home, default_home())
        self._relay = relay

    def start(
        self,
        settings: Mapping[str, str] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> str:
        super().start(settings, report)
        return f"{HOST}:{self._relay.port}"

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        super()._write_properties(settings)
        own = properties.read(self._properties)
        self._relay.target_port = int(own["advertised.listeners"].rpartition(":")[2])
        own["advertised.listeners"] = f"CLIENT://{HOST}:{self._relay.port}"
        self._properties.write_text(properties.dump(own), encoding="utf-8")
