"""`brokertwin capture`: a recording proxy in front of a real Kafka cluster."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from brokertwin.cli.files import check_new
from brokertwin.cli.options import Bootstrap, ConfigFile, Force, KafkaConfig, address, settings_of
from brokertwin.cli.output import err, say, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    import ssl

    from brokertwin.gateway.capture.proxy import CaptureCounts
    from brokertwin.gateway.capture.recorder import Recorder
    from brokertwin.gateway.capture.sinks import CaptureSink
    from brokertwin.gateway.edge_fields import Address
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings

    MakeSink = Callable[[Callable[[str], None]], CaptureSink]
    """Open a sink; its argument is called for each document that is lost later."""

INCOMPLETE = 1
REDRAWN_S = 0.5
JSON_EVERY_S = 10.0
STDOUT = Path("-")
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)

OnFailure = Literal["go-on", "stop"]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Address for clients in place of the broker's. Other brokers of the cluster get the"
        " following ports. Port 0: any free port.",
    ),
]
Broker = Annotated[str, typer.Argument(metavar="HOST:PORT", help="A broker of the cluster.")]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise-host",
        metavar="HOST",
        help="Host in metadata responses in place of --listen's.",
    ),
]
ListenConfig = Annotated[
    Path | None,
    typer.Option(
        "--listen-config",
        metavar="FILE",
        help="Broker settings of --listen: with ssl.keystore.location (PEM, PKCS12 or JKS), clients"
        " connect with TLS.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE|-",
        help="Write to a new file, or to standard output (-). Compressed if it ends in .gz.",
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Write to partition 0 of this topic in the Kafka at --bootstrap.",
    ),
]
OnFailureOption = Annotated[
    OnFailure,
    typer.Option(
        "--on-failure",
        help="If an exchange cannot be recorded: keep relaying traffic, or stop.",
    ),
]
AsJsonLines = Annotated[
    bool,
    typer.Option(
        "--json",
        "-J",
        help="Print JSON lines: the listen address, the counters every 10 s, and the totals at the"
        " end; on standard output, or with --out - on standard error.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no live status and no final table.")]


def command(
    broker: Broker,
    listen: Listen = "localhost:19092",
    advertise: Advertise = None,
    listen_config: ListenConfig = None,
    out: Out = None,
    force: Force = False,
    topic: Topic = None,
    on_failure: OnFailureOption = "go-on",
    quiet: Quiet = False,
    as_json: AsJsonLines = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Record the requests and responses between clients and a real Kafka.

    Connect clients to --listen: the proxy relays everything and writes each request and its
    response as one JSON line in the format of Kafka's request log, for `replay`, `send` and
    `ingest`. Credentials and record contents are not recorded. Broker settings that differ from
    Kafka's defaults are written to FILE.properties, where `replay` finds them.

    SIGINT or SIGTERM stops the proxy; a second one stops it at once. If --kafka-config sets a
    security.protocol with SSL, the proxy connects to brokers with TLS. Clients authenticate
    themselves. Exits with code 1 if an exchange was not recorded, and with code 2 if nothing more
    could be written.
    """
    from brokertwin.kafka_io.kafka_clients import broker_client
    from brokertwin.recordings.replay.settings_beside import SETTINGS_SUFFIX

    beside = None
    if out is not None and out != STDOUT:
        check_new(out, force)
        if out.is_file() or not out.exists():
            beside = out.with_name(out.name + SETTINGS_SUFFIX)
            check_new(beside, force)
    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config)
    ends = relay_ends(listen, broker, advertise, settings, listen_config)
    make_sink = _sink_maker(out, topic, settings)
    reporter = _Reporter(as_json, quiet, is_stdout_taken=out == STDOUT)
    write_settings = None
    if beside is not None:
        write_settings = partial(_write_settings, beside, broker_client(broker, settings))
    is_complete = asyncio.run(_capture(ends, make_sink, on_failure, reporter, write_settings))
    if not is_complete:
        raise typer.Exit(INCOMPLETE)


class RelayEnds(NamedTuple):
    """Addresses of a relay, and TLS to the brokers and of the clients."""

    listen: "Address"
    broker: "Address"
    advertise: str | None
    tls: "ssl.SSLContext | None"
    listen_tls: "ssl.SSLContext | None"


def relay_ends(
    listen: str,
    broker: str,
    advertise: str | None,
    settings: "Settings",
    listen_config: Path | None = None,
) -> RelayEnds:
    """Return the ends of a relay to a reachable broker. Raises UserError."""
    from brokertwin.kafka_io.kafka_clients import broker_client, check_reachable

    at, to = address("--listen", listen), address("HOST:PORT", broker)
    tls = broker_client(broker, settings).ssl_context()
    check_reachable(broker, patience_s=0)
    return RelayEnds(at, to, advertise, tls, _listen_tls(listen_config))


def _listen_tls(listen_config: Path | None) -> "ssl.SSLContext | None":
    """Return the TLS context for clients, or None without settings. Raises UserError."""
    from brokertwin.gateway.admin.broker_properties import BrokerProperties
    from brokertwin.gateway.security.tls import server_context
    from brokertwin.kafka_io import properties

    if listen_config is None:
        return None
    return server_context(BrokerProperties(properties.read(listen_config), ""))


def _write_settings(path: Path, client: "ClientProperties") -> None:
    """Write the broker's settings to a file; warn if the broker does not return them.

    Raises:
        UserError: the file is not writable.
    """
    from brokertwin.kafka_io import broker_facts

    try:
        properties = broker_facts.read(client)
    except UserError as error:
        hint = "Pass the settings to `replay` with --broker-config."
        warn(f"{error.message} {hint} {error.hint}")
    else:
        broker_facts.write(path, properties)


def _sink_maker(out: Path | None, topic: str | None, settings: "Settings") -> "MakeSink":
    """Return a function that opens the sink. Raises UserError."""
    from brokertwin.gateway.capture.sinks import FileSink, TopicSink
    from brokertwin.kafka_io.kafka_clients import client_properties

    if out is not None and topic is None:
        return lambda _: FileSink(out)
    if out is None and topic is not None:
        client = client_properties(settings)
        _create_topic(client, topic)
        return lambda on_lost: TopicSink(client, topic, on_lost)
    raise UserError(
        "`brokertwin capture` needs one destination for the recording.",
        "Pass either --out FILE or --topic NAME.",
    )


def _create_topic(client: "ClientProperties", topic: str) -> None:
    """Create the topic with one partition if it does not exist. Raises UserError."""
    from brokertwin.kafka_io.topics import (
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
    ends: RelayEnds,
    make_sink: "MakeSink",
    on_failure: OnFailure,
    reporter: "_Reporter",
    write_settings: Callable[[], None] | None,
) -> bool:
    """Record until a signal arrives; return True if every exchange was recorded."""
    from brokertwin.gateway.capture.proxy import Proxy
    from brokertwin.gateway.capture.recorder import Recorder

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, ended.set)
    sink = make_sink(lambda reason: recorder.lose_later(reason))
    recorder = Recorder(sink, ended.set if on_failure == "stop" else lambda: None)
    proxy = Proxy(
        ends.listen, ends.broker, recorder, ends.advertise, ends.tls, listen_tls=ends.listen_tls
    )
    try:
        await proxy.start()
        if write_settings is not None:
            await asyncio.to_thread(write_settings)
        recorder.start()
        reporter.started(proxy.addresses[ends.broker], sink.name)
        await reporter.watch(proxy.counts, recorder, ended)
    finally:
        for number in ENDING_SIGNALS:
            loop.remove_signal_handler(number)  # a second signal stops the process at once
        await proxy.close()
        await recorder.close()
    reporter.ended(proxy.counts, recorder)
    recorder.raise_failure()
    return not recorder.lost


class _Reporter:
    """Report a capture's progress as text or as JSON."""

    def __init__(self, as_json: bool, is_quiet: bool, is_stdout_taken: bool) -> None:
        self._as_json = as_json
        self._is_quiet = is_quiet
        self._is_stdout_taken = is_stdout_taken

    def started(self, local: "Address", sink: str) -> None:
        if self._as_json:
            self._print({"event": "listening", "at": f"{local.host}:{local.port}", "to": sink})
        else:
            say(f"listening on {local.host}:{local.port}, recording to {sink}")

    async def watch(
        self, counts: "CaptureCounts", recorder: "Recorder", ended: asyncio.Event
    ) -> None:
        """Show the counters until `ended`: as JSON lines, or as a table on a terminal."""
        if self._as_json and not self._is_quiet:
            while not await _is_over(ended, JSON_EVERY_S):
                self._print({"event": "progress", **_numbers(counts, recorder)})
        elif self._as_json or self._is_quiet or not err.is_terminal:
            await ended.wait()
        else:
            with Live(console=err, auto_refresh=False, transient=True) as live:
                live.update(_table(counts, recorder.lost), refresh=True)
                while not await _is_over(ended, REDRAWN_S):
                    live.update(_table(counts, recorder.lost), refresh=True)

    def ended(self, counts: "CaptureCounts", recorder: "Recorder") -> None:
        if self._as_json:
            self._print({"event": "ended", **_numbers(counts, recorder)})
        elif not self._is_quiet:
            err.print(_table(counts, recorder.lost))

    def _print(self, document: dict[str, Any]) -> None:
        print(
            json.dumps(document, ensure_ascii=False),
            file=sys.stderr if self._is_stdout_taken else sys.stdout,
            flush=True,
        )


async def _is_over(ended: asyncio.Event, wait_s: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), wait_s)
    return ended.is_set()


def _numbers(counts: "CaptureCounts", recorder: "Recorder") -> dict[str, Any]:
    """The table's counters as JSON; times are in ms."""
    return {
        "exchanges": counts.exchanges,
        "recorded": recorder.taken,
        "connections": {"open": counts.connections, "all": counts.connections_all},
        "refused": dict(counts.refused),
        "lost": dict(recorder.lost),
        "apis": {
            api: {
                "exchanges": of.exchanges,
                "msMean": round(of.ms / of.exchanges, 3),
                "msMax": round(of.ms_max, 3),
                "notDelivered": of.undelivered,
                "notRead": of.not_read,
            }
            for api, of in sorted(counts.apis.items())
        },
    }


def _table(counts: "CaptureCounts", lost: Counter[str]) -> Table:
    """Exchanges by API, most frequent first, with failures in the caption."""
    connections = f"{counts.connections:,} of {counts.connections_all:,} connections open"
    lines = [
        f"{counted(counts.exchanges, 'exchange')}, {connections}",
        *(f"refused connections: {number:,}: {why}" for why, number in counts.refused.items()),
        *(f"NOT RECORDED: {number:,}: {why}" for why, number in lost.items()),
    ]
    table = Table(caption=escape("\n".join(lines)), caption_justify="left")
    table.add_column("API")
    for name in ("exchanges", "mean ms", "max ms", "not delivered", "not decoded"):
        table.add_column(name, justify="right")
    for api, of in sorted(counts.apis.items(), key=lambda item: -item[1].exchanges):
        numbers = (of.exchanges, of.ms / of.exchanges, of.ms_max, of.undelivered, of.not_read)
        table.add_row(api, *(f"{n:,.1f}" if isinstance(n, float) else f"{n:,}" for n in numbers))
    return table
