"""A capturing proxy in a thread of the test's process, and its recording."""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from brokertwin.gateway.capture.proxy import Proxy
from brokertwin.gateway.capture.recorder import Recorder
from brokertwin.gateway.capture.sinks import CaptureSink, FileSink
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.limits import GatewayLimits
from tests.support.patience import PATIENCE_S

HOST = "127.0.0.1"
TIMEOUT_S = PATIENCE_S
Document = dict[str, Any]


class Capturing(NamedTuple):
    """A proxy that serves; `file` is complete when it has ended."""

    proxy: Proxy
    recorder: Recorder
    first: Address
    file: Path

    @property
    def bootstrap(self) -> str:
        return f"{self.first.host}:{self.first.port}"

    @property
    def lost(self) -> Counter[str]:
        """Exchanges that were not recorded."""
        return self.recorder.lost

    def documents(self) -> list[Document]:
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]

    def of(self, api: str) -> list[Document]:
        return [each for each in self.documents() if name_of(each) == api]


def name_of(document: Document) -> str:
    return str(document.get("requestHeader", {}).get("requestApiKeyName"))


def address(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return Address(host, int(port))


@contextmanager
def capturing(
    broker: Address | str,
    file: Path,
    make_sink: Callable[[], CaptureSink] | None = None,
    limits: GatewayLimits | None = None,
    tls: ssl.SSLContext | None = None,
    listen: Address = Address(HOST, 0),  # noqa: B008 (a tuple)
    **options: Any,
) -> Iterator[Capturing]:
    """A proxy in front of a broker, recording to a file; `options` are the recorder's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(TIMEOUT_S)

    real = address(broker) if isinstance(broker, str) else broker

    async def start() -> Capturing:
        sink = make_sink() if make_sink is not None else FileSink(file)
        recorder = Recorder(sink, **options)
        proxy = Proxy(listen, real, recorder, tls=tls, limits=limits)
        try:
            await proxy.start()
            recorder.start()
        except BaseException:
            await recorder.close()
            raise
        return Capturing(proxy, recorder, proxy.addresses[real], file)

    async def end(running: Capturing) -> None:
        await running.proxy.close()
        await running.recorder.close()

    try:
        running = run(start())
        try:
            yield running
        finally:
            run(end(running))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT_S)
        loop.close()
