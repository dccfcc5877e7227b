"""`brokertwin gateway`: a server for Kafka's wire protocol."""

import asyncio
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.broker.engines import INTERNAL_LOGS, EngineName, EngineOptions
from brokertwin.cli.era_options import (
    BrokerEraOption,
    BrokerTrace,
    KafkaVersion,
    broker_defaults,
    tracer,
)
from brokertwin.cli.options import (
    Bootstrap,
    BrokerConfig,
    BrokerSet,
    ConfigFile,
    HttpAccessFile,
    HttpListen,
    HttpPort,
    KafkaConfig,
    Prefix,
    address,
    broker_settings,
    settings_of,
    typed_broker_settings,
)
from brokertwin.cli.output import say, warn
from brokertwin.errors import UserError
from brokertwin.gateway.security.security_protocol import SecurityProtocol

if TYPE_CHECKING:
    from brokertwin.cli.watching.sources import GatewaySource
    from brokertwin.gateway.admin.control import Control
    from brokertwin.gateway.engine.local_engine import LocalEngine
    from brokertwin.gateway.engine.spark_engine import SparkEngine
    from brokertwin.gateway.security.security import GatewaySecurity
    from brokertwin.gateway.server import Gateway
    from brokertwin.testing.broker import KafkaBroker


SecurityProtocolOption = Annotated[
    SecurityProtocol,
    typer.Option(
        "--security-protocol",
        help="Protocol of the ports. TLS uses ssl.keystore.location (PEM) and the other ssl."
        " broker settings; SASL uses --credentials and sasl.enabled.mechanisms.",
    ),
]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="User file for SASL, created with `brokertwin credentials`.",
    ),
]

StorePasswordsFile = Annotated[
    Path | None,
    typer.Option(
        "--store-passwords",
        metavar="FILE",
        help="File for passwords of key and trust stores that clients alter; without it they are"
        " lost when the gateway stops.",
    ),
]


def security_of(
    protocol: SecurityProtocol,
    credentials: Path | None,
    store_passwords: Path | None,
    broker_config: Path | None,
    broker_set: Sequence[str] | None,
) -> "GatewaySecurity":
    """Return the ports' security and warn about doubtful settings.

    Raises:
        UserError: as `GatewaySecurity.of`.
    """
    from brokertwin.gateway.security.security import GatewaySecurity

    configs = broker_settings(broker_config, broker_set)
    security = GatewaySecurity.of(protocol, configs, credentials, store_passwords)
    for warning in security.warnings:
        warn(warning)
    return security


FAULTS = "--control-listen"

Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Address of the first broker; the others get the following ports. Port 0: any free.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST:PORT",
        help="Address in metadata responses in place of --listen.",
    ),
]
EngineOption = Annotated[
    EngineName,
    typer.Option("--engine", help="local: a cluster in this process. spark: a running job."),
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers", min=1, max=100, metavar="N", help="Brokers, with --engine local; default: 1."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Cluster name; with --engine spark only needed if the job has several clusters.",
    ),
]
JournalFile = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        help="With --engine local: keep state in this file and record batches in FILE.batches.",
    ),
]
JournalFsync = Annotated[
    str | None,
    typer.Option(
        "--journal-fsync",
        metavar="always|TIME|never",
        help="When journal writes reach the disk. always: before each response. TIME: within TIME"
        " (100ms, 1s). never: when the operating system flushes. Default 1s.",
    ),
]
ControlFile = Annotated[
    Path | None,
    typer.Option(
        "--control",
        metavar="FILE",
        help="With --engine local: control socket for `brokertwin cluster`.",
    ),
]
Faults = Annotated[
    str | None,
    typer.Option(
        FAULTS,
        metavar="[HOST:]PORT",
        help="A broker for tests in any language: serve the methods of the pytest fixture over"
        " HTTP. State is in memory; new groups do not wait for more members.",
    ),
]
ResponseTimeout = Annotated[
    float | None,
    typer.Option(
        "--response-timeout",
        min=1,
        metavar="SECONDS",
        help="With --engine spark: close connections whose requests have waited this long for the"
        " job; default: 60.",
    ),
]


def command(
    listen: Listen = "localhost:9092",
    engine: EngineOption = "local",
    brokers: Brokers = None,
    cluster: Cluster = None,
    advertise: Advertise = None,
    journal: JournalFile = None,
    journal_fsync: JournalFsync = None,
    control: ControlFile = None,
    faults: Faults = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    security_protocol: SecurityProtocolOption = SecurityProtocol.PLAINTEXT,
    credentials: CredentialsFile = None,
    store_passwords: StorePasswordsFile = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    response_timeout: ResponseTimeout = None,
    http_listen: HttpListen = None,
    http_access: HttpAccessFile = None,
    version: KafkaVersion = None,
    era: BrokerEraOption = None,
    trace: BrokerTrace = False,
) -> None:
    """Serve unmodified Kafka clients.

    --engine local keeps all state in memory, and on disk with --journal. --engine spark serves a
    cluster of a job that `brokertwin run` runs; responses take about a second, and several gateways
    can serve one job. SIGTERM or SIGINT stops the gateway.

    Broker settings that the gateway uses include socket.request.max.bytes, max.connections,
    max.connections.per.ip, max.connection.creation.rate, connections.max.idle.ms and
    queued.max.requests. With a --security-protocol other than PLAINTEXT they include the TLS and
    SASL settings, such as ssl.client.auth and sasl.enabled.mechanisms.
    """
    from brokertwin.gateway import limits
    from brokertwin.gateway.admin.releases import release
    from brokertwin.gateway.engine.local_engine import LocalEngine
    from brokertwin.gateway.security import security as port_security
    from brokertwin.gateway.server import Gateway

    settings_of(config)  # configures logging and checks the settings
    listen_at = address("--listen", listen)
    advertised = address("--advertise", advertise) if advertise is not None else None
    used = port_security.settings_used(security_protocol)
    used |= limits.settings_used(security_protocol)
    offered = release(version) if version is not None else None
    defaults = broker_defaults(era, trace, offered, engine == "local")
    settings = typed_broker_settings(broker_config, broker_set, used, defaults)
    security = security_of(
        security_protocol, credentials, store_passwords, broker_config, broker_set
    )
    if faults is not None:
        unfit = {
            "--engine spark": engine == "spark",
            "--journal": journal is not None,
            "--control": control is not None,
            "--http-listen": http_listen is not None,
            "--cluster": cluster is not None,
            "--store-passwords": store_passwords is not None,
            "--trace": trace,
        }
        for option, is_given in unfit.items():
            if is_given:
                raise UserError(f"Cannot combine {option} with {FAULTS}.", f"Leave out {option}.")
        from brokertwin.testing.broker import KafkaBroker

        broker = KafkaBroker(
            brokers=brokers or 1,
            config={INTERNAL_LOGS: True, **defaults, **broker_settings(broker_config, broker_set)},
            security_protocol=security_protocol.value,
            users=credentials,
            version=version,
            listen=listen_at,
            advertise=advertised,
        )
        _serve_with_faults(broker, faults, http_access)
        return
    options = EngineOptions(
        cluster=cluster,
        brokers=brokers,
        journal=journal,
        journal_fsync=journal_fsync,
        bootstrap=bootstrap,
        prefix=prefix,
        kafka_config=kafka_config,
        config=config,
        response_timeout_s=response_timeout,
        may_intervene=control is not None,
    )
    made = options.make(engine, settings, used)
    configs = broker_settings(broker_config, broker_set)
    limits_given = limits.GatewayLimits.of(configs, security_protocol)
    gateway = Gateway(made, listen_at, advertised, limits_given, security, offered)
    writes_line = tracer(trace)
    if writes_line is not None and isinstance(made, LocalEngine):
        made.on_line = lambda line: writes_line(gateway.addressed(line))
    asyncio.run(_serve(gateway, made, _control(made, control), HttpPort(http_listen, http_access)))


def _serve_with_faults(broker: "KafkaBroker", faults: str, access: Path | None) -> None:
    """Serve a test broker and its methods until a signal arrives."""
    from brokertwin.cli.watching.server import listen_address, served_control
    from brokertwin.gateway.http_access import HttpAccess
    from brokertwin.gateway.proxy.control import app
    from brokertwin.testing.http_verbs import BrokerVerbs

    ended = threading.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: ended.set())
    with broker:
        verbs = BrokerVerbs(broker)
        control = app(broker.fault_set, verbs.documents, verbs)
        at = listen_address(faults, FAULTS)
        with served_control(control, FAULTS, at, HttpAccess.read(access)) as url:
            for number, address in enumerate(broker.bootstrap_servers, 1):
                say(f"broker {number} at {address}")
            say(f"faults at {url}")
            ended.wait()


def _control(engine: "LocalEngine | SparkEngine", path: Path | None) -> "Control | None":
    from brokertwin.gateway.admin.control import Control
    from brokertwin.gateway.engine.local_engine import LocalEngine

    return Control(engine, path) if path and isinstance(engine, LocalEngine) else None


async def _serve(
    gateway: "Gateway",
    engine: "LocalEngine | SparkEngine",
    control: "Control | None",
    http: HttpPort,
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    with _watched(gateway, engine, http) as watched:
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
    gateway: "Gateway", engine: "LocalEngine | SparkEngine", http: HttpPort
) -> "Iterator[GatewaySource | None]":
    """Serve the gateway's status while entered; None without an address."""
    if http.listen is None:
        yield None
        return
    from brokertwin.cli.watching.server import status_page
    from brokertwin.cli.watching.sources import GatewaySource
    from brokertwin.gateway.engine.local_engine import LocalEngine

    columns = engine.columns if isinstance(engine, LocalEngine) else None
    source = GatewaySource(gateway, engine, columns)
    with status_page(source, http, say):
        yield source
