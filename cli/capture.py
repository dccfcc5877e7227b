"""`brokerstream capture`: a proxy in front of a real Kafka that records what goes through."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from brokerstream.cli.options import (
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    address,
    settings_of,
)
from brokerstream.cli.output import err, say
from brokerstream.errors import UserError

if TYPE_CHECKING:
    import ssl

    from brokerstream.gateway.answers import Address
    from brokerstream.gateway.capture.counts import Counts
    from brokerstream.gateway.capture.sinks import Sink
    from brokerstream.kafka_io.kafka_clients import ClientProperties
    from brokerstream.settings import Settings

    MakeSink = Callable[[Callable[[str], None]], Sink]
    """Opens a sink; it is given what to call for a document that is lost later."""

INCOMPLETE = 1
REDRAWN_S = 0.5
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class OnFailure(StrEnum):
    """What happens when an exchange cannot be recorded."""

    GO_ON = "go-on"
    STOP = "stop"


Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where clients connect in place of --broker; the cluster's other brokers have the"
        " ports after it. Port 0: any.",
    ),
]
Broker = Annotated[
    str, typer.Option("--broker", metavar="HOST:PORT", help="A broker of the real Kafka.")
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise", metavar="HOST", help="What clients are told in place of --listen's host."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE|-",
        help="Write to a new file, compressed if it ends in .gz, or to standard output.",
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Write to partition 0 of a topic of the Kafka at --bootstrap.",
    ),
]
OnFailureOption = Annotated[
    OnFailure,
    typer.Option(
        "--on-failure",
        help="When an exchange cannot be recorded: let traffic go on unrecorded, or end.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no status and no closing table.")]


def command(
    broker: Broker,
    listen: Listen = "localhost:19092",
    advertise: Advertise = None,
    out: Out = None,
    topic: Topic = None,
    on_failure: OnFailureOption = OnFailure.GO_ON,
    quiet: Quiet = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Record what clients and a real Kafka say to each other.

    Point clients at --listen; everything is passed on, and each exchange becomes one JSON line in
    the shape of Kafka's request log, for `replay`, `send` and `ingest`. Passwords and other
    credentials are left out; record bytes, too. SIGINT or SIGTERM ends it, a second one at once.
    Where --kafka-config has a security.protocol with SSL, brokers are spoken to in TLS; clients log
    in themselves. The exit code is 1 if an exchange was not recorded.
    """
    from brokerstream.kafka_io import properties
    from brokerstream.kafka_io.kafka_clients import ClientProperties, check_reachable

    ways = _Ways(address("--listen", listen), address("--broker", broker), advertise)
    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config)
    if settings.kafka_config is not None:
        tls = ClientProperties(properties.read(settings.kafka_config)).ssl_context()
        ways = ways._replace(tls=tls)
    check_reachable(broker, patience_s=0)
    make_sink = _sink_maker(out, topic, settings)
    is_complete = asyncio.run(_capture(ways, make_sink, on_failure, quiet))
    if not is_complete:
        raise typer.Exit(INCOMPLETE)


def _sink_maker(out: Path | None, topic: str | None, settings: "Settings") -> "MakeSink":
    """What opens the sink. Raises UserError where there is none, or Kafka cannot be reached."""
    from brokerstream.gateway.capture.sinks import FileSink, TopicSink
    from brokerstream.kafka_io.kafka_clients import client_properties

    if out is not None and topic is None:
        return lambda _: FileSink(out)
    if out is None and topic is not None:
        client = client_properties(settings)
        _create_topic(client, topic)
        return lambda on_lost: TopicSink(client, topic, on_lost)
    raise UserError("Where should it be recorded?", "Give either --out FILE or --topic NAME.")


class _Ways(NamedTuple):
    """Which way the traffic takes."""

    listen: "Address"
    broker: "Address"
    advertise: str | None
    tls: "ssl.SSLContext | None" = None


def _create_topic(client: "ClientProperties", topic: str) -> None:
    """Create the topic, with one partition, unless it is there. Raises UserError."""
    from brokerstream.kafka_io.topics import (
        ROW_BYTES_MAX,
        TopicSpec,
        admin_client,
        create,
        existing,
    )

    admin = admin_client(client)
    if topic not in existing(admin, client):
        settings = {"max.message.bytes": str(ROW_BYTES_MAX)}
        create(admin, {topic: TopicSpec(topic, settings=settings)})


async def _capture(
    ways: _Ways, make_sink: "MakeSink", on_failure: OnFailure, is_quiet: bool
) -> bool:
    """Record until a signal comes; gives back whether every exchange was recorded."""
    from brokerstream.gateway.capture.proxy import Proxy
    from brokerstream.gateway.capture.recorder import Recorder

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, ended.set)
    sink = make_sink(lambda reason: recorder.lose_later(reason))
    recorder = Recorder(sink, ended.set if on_failure is OnFailure.STOP else lambda: None)
    proxy = Proxy(ways.listen, ways.broker, recorder, ways.advertise, ways.tls)
    try:
        await proxy.start()
        local = proxy.addresses[ways.broker]
        say(f"clients connect to {local.host}:{local.port}; recorded in {sink.name}")
        await _watch(lambda: _table(proxy.counts, recorder.lost), ended, is_quiet)
    finally:
        for number in ENDING_SIGNALS:
            loop.remove_signal_handler(number)  # a second one ends at once
        await proxy.close()
        await recorder.close()
    if not is_quiet:
        err.print(_table(proxy.counts, recorder.lost))
    return not recorder.lost


async def _watch(table: Callable[[], Table], ended: asyncio.Event, is_quiet: bool) -> None:
    """Show the table until `ended`; elsewhere than on a terminal just wait."""
    if is_quiet or not err.is_terminal:
        await ended.wait()
        return
    with Live(console=err, auto_refresh=False, transient=True) as live:
        while not ended.is_set():
            live.update(table(), refresh=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), REDRAWN_S)


def _table(counts: "Counts", lost: Counter[str]) -> Table:
    """Exchanges by API, the most frequent first; below it what was not recorded."""
    connections = f"{counts.connections:,} connections open of {counts.connections_all:,}"
    lines = [
        f"{counts.exchanges:,} exchanges, {connections}",
        *(f"refused connections: {number:,}: {why}" for why, number in counts.refused.items()),
        *(f"NOT RECORDED: {number:,}: {why}" for why, number in lost.items()),
    ]
    table = Table(caption=escape("\n".join(lines)), caption_justify="left")
    table.add_column("API")
    for name in ("exchanges", "ms", "ms max", "not delivered", "not read"):
        table.add_column(name, justify="right")
    for api, of in sorted(counts.apis.items(), key=lambda item: -item[1].exchanges):
        numbers = (of.exchanges, of.ms / of.exchanges, of.ms_max, of.undelivered, of.not_read)
        table.add_row(api, *(f"{n:,.1f}" if isinstance(n, float) else f"{n:,}" for n in numbers))
    return table
