"""`brokertwin gateway`: Kafka's wire protocol in front of the state machine."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.engines import EngineName, EngineOptions
from brokertwin.cli.options import (
    Bootstrap,
    BrokerConfig,
    BrokerSet,
    ConfigFile,
    HttpListen,
    KafkaConfig,
    Prefix,
    address,
    broker_settings,
    settings_of,
    typed_broker_settings,
)
from brokertwin.cli.output import say
from brokertwin.cli.securing import (
    CredentialsFile,
    SecurityProtocolOption,
    StorePasswordsFile,
    security_of,
    settings_heeded,
)
from brokertwin.gateway.security_protocol import SecurityProtocol

if TYPE_CHECKING:
    from brokertwin.cli.watching.sources import GatewaySource
    from brokertwin.gateway.control import Control
    from brokertwin.gateway.local_engine import LocalEngine
    from brokertwin.gateway.server import Gateway
    from brokertwin.gateway.spark_engine import SparkEngine


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
    EngineName,
    typer.Option("--engine", help="local: a cluster in this process. spark: one of a running job."),
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers", min=1, max=100, metavar="N", help="Logical brokers of the engine local; 1."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="The cluster's name; of a job that holds only one it need not be given.",
    ),
]
JournalFile = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        help="Keep the state of the engine local: events in FILE, batches in FILE.batches.",
    ),
]
JournalFsync = Annotated[
    str | None,
    typer.Option(
        "--journal-fsync",
        metavar="always|TIME|never",
        help="When a power failure can no longer take what was answered: before the answer, TIME"
        " later at most (100ms, 1s), or when the system likes; 1s.",
    ),
]
ControlFile = Annotated[
    Path | None,
    typer.Option(
        "--control",
        metavar="FILE",
        help="Engine local: a socket for `brokertwin cluster`, which may stop brokers.",
    ),
]
AnswerTimeout = Annotated[
    float | None,
    typer.Option(
        "--answer-timeout",
        min=1,
        metavar="SECONDS",
        help="Engine spark: how long the job may be silent before connections that wait for it"
        " are closed; 60.",
    ),
]


def command(
    listen: Listen = "localhost:9092",
    engine: EngineOption = EngineName.LOCAL,
    brokers: Brokers = None,
    cluster: Cluster = None,
    advertise: Advertise = None,
    journal: JournalFile = None,
    journal_fsync: JournalFsync = None,
    control: ControlFile = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    security_protocol: SecurityProtocolOption = SecurityProtocol.PLAINTEXT,
    credentials: CredentialsFile = None,
    store_passwords: StorePasswordsFile = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    answer_timeout: AnswerTimeout = None,
    http_listen: HttpListen = None,
) -> None:
    """Serve unmodified Kafka clients.

    With the engine local everything is kept in memory and gone at the end, unless there is a
    --journal. With spark the cluster is one of a job that `brokertwin run` runs, and its answers
    take about a second; several gateways may serve one job. SIGTERM or SIGINT ends it.

    Among the broker settings that it heeds are socket.request.max.bytes, max.connections,
    max.connections.per.ip, max.connection.creation.rate, connections.max.idle.ms and
    queued.max.requests, and with another
    --security-protocol than PLAINTEXT those of TLS and SASL, such as ssl.client.auth and
    sasl.enabled.mechanisms.
    """
    from brokertwin.gateway import limits
    from brokertwin.gateway.server import Gateway

    settings_of(config)  # they say how to log, and must be sound
    listen_at = address("--listen", listen)
    advertised = address("--advertise", advertise) if advertise is not None else None
    heeded = settings_heeded(security_protocol)
    heeded |= limits.settings_heeded(security_protocol)
    settings = typed_broker_settings(broker_config, broker_set, heeded)
    security = security_of(
        security_protocol, credentials, store_passwords, broker_config, broker_set
    )
    options = EngineOptions(
        cluster=cluster,
        brokers=brokers,
        journal=journal,
        journal_fsync=journal_fsync,
        bootstrap=bootstrap,
        prefix=prefix,
        kafka_config=kafka_config,
        config=config,
        answer_timeout_s=answer_timeout,
        may_intervene=control is not None,
    )
    made = options.make(engine, settings, heeded)
    given = broker_settings(broker_config, broker_set)
    limits_given = limits.Limits.of(given, security_protocol)
    gateway = Gateway(made, listen_at, advertised, limits_given, security)
    asyncio.run(_serve(gateway, made, _control(made, control), http_listen))


def _control(engine: "LocalEngine | SparkEngine", path: Path | None) -> "Control | None":
    """The control socket, if one is asked for."""
    from brokertwin.gateway.control import Control
    from brokertwin.gateway.local_engine import LocalEngine

    return Control(engine, path) if path and isinstance(engine, LocalEngine) else None


async def _serve(
    gateway: "Gateway",
    engine: "LocalEngine | SparkEngine",
    control: "Control | None",
    http_listen: str | None,
) -> None:
    """Serve until a signal comes."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    with _watched(gateway, engine, http_listen) as watched:
        await gateway.start()
        if control is not None:
            await control.open()
        for broker, (host, port) in gateway.addresses.items():
            say(f"broker {broker} at {host}:{port}")
        sampling = loop.create_task(watched.sample()) if watched is not None else None
        await ended.wait()
        if watched is not None and sampling is not None:
            watched.pulse.stopping()
            sampling.cancel()
        if control is not None:
            await control.close()
        await gateway.close()


@contextmanager
def _watched(
    gateway: "Gateway", engine: "LocalEngine | SparkEngine", http_listen: str | None
) -> "Iterator[GatewaySource | None]":
    """What says where the gateway stands, served while entered; None without an address."""
    if http_listen is None:
        yield None
        return
    from brokertwin.cli.watching.server import OPTION, listen_address, served
    from brokertwin.cli.watching.sources import GatewaySource
    from brokertwin.gateway.local_engine import LocalEngine

    columns = engine.columns if isinstance(engine, LocalEngine) else None
    source = GatewaySource(gateway, engine, columns)
    with served(source, f"{OPTION} {http_listen}", *listen_address(http_listen)) as url:
        say(f"to be watched at {url}")
        yield source
