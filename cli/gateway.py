"""`brokerstream gateway`: Kafka's wire protocol in front of the state machine."""

import asyncio
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokerstream.cli.options import BrokerConfig, BrokerSet, address, typed_broker_settings
from brokerstream.cli.output import say

if TYPE_CHECKING:
    from brokerstream.gateway.server import Gateway


class EngineName(StrEnum):
    """What decides the requests."""

    LOCAL = "local"


Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where the first broker listens; the others have the ports after it. Port 0: any.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST:PORT",
        help="What clients are told in place of --listen.",
    ),
]
EngineOption = Annotated[
    EngineName, typer.Option("--engine", help="local: a cluster in this process.")
]
Brokers = Annotated[
    int, typer.Option("--brokers", min=1, max=100, metavar="N", help="Logical brokers.")
]
Cluster = Annotated[str, typer.Option("--cluster", metavar="NAME", help="The cluster's name.")]
JournalFile = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        help="Keep the state: events in FILE, record batches in FILE.batches.",
    ),
]


def command(
    listen: Listen = "localhost:9092",
    engine: EngineOption = EngineName.LOCAL,
    brokers: Brokers = 1,
    cluster: Cluster = "local",
    advertise: Advertise = None,
    journal: JournalFile = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
) -> None:
    """Serve unmodified Kafka clients.

    Without --journal everything is kept in memory and gone at the end. SIGTERM or SIGINT ends it.
    Among the broker settings that it heeds are socket.request.max.bytes, max.connections,
    connections.max.idle.ms and queued.max.requests.
    """
    import structlog

    from brokerstream.gateway.limits import SETTINGS, Limits
    from brokerstream.gateway.local_engine import LocalEngine
    from brokerstream.gateway.server import Gateway

    assert engine is EngineName.LOCAL
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    listen_at = address("--listen", listen)
    advertised = address("--advertise", advertise) if advertise is not None else None
    settings = typed_broker_settings(broker_config, broker_set, SETTINGS)
    local = LocalEngine(cluster, list(range(1, brokers + 1)), settings, journal)
    gateway = Gateway(local, listen_at, advertised, Limits.of(settings.given))
    asyncio.run(_serve(gateway))


async def _serve(gateway: "Gateway") -> None:
    """Serve until a signal comes."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await gateway.start()
    for broker, (host, port) in gateway.addresses.items():
        say(f"broker {broker} at {host}:{port}")
    await ended.wait()
    await gateway.close()
