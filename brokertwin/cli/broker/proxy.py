"""`brokertwin proxy`: inject faults between clients and a Kafka cluster."""

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import check_new
from brokertwin.cli.options import ConfigFile, Force, HttpAccessFile, KafkaConfig, settings_of
from brokertwin.cli.output import say
from brokertwin.cli.recordings.capture import Advertise, ListenConfig, RelayEnds, relay_ends
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.gateway.capture.sinks import FileSink
    from brokertwin.gateway.faults.fault import FaultSpec
    from brokertwin.gateway.http_access import HttpAccess

OPTION = "--control-listen"

Broker = Annotated[str, typer.Argument(metavar="HOST:PORT", help="A broker of the cluster.")]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Address for clients, in place of the broker's. Other brokers of the cluster get the"
        " next ports. Port 0: any free port.",
    ),
]
Faults = Annotated[
    Path | None,
    typer.Option("--faults", metavar="FILE", help="Faults in TOML, or in JSON (*.json)."),
]
Control = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="[HOST:]PORT",
        help="Serve HTTP to change faults and list requests. 9405 means 127.0.0.1:9405. Port 0: any"
        " free port.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Record requests and responses in a new file, as `capture` does.",
    ),
]


def command(
    broker: Broker,
    listen: Listen = "localhost:19092",
    faults: Faults = None,
    control: Control = None,
    http_access: HttpAccessFile = None,
    out: Out = None,
    force: Force = False,
    advertise: Advertise = None,
    listen_config: ListenConfig = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Inject faults between clients and a Kafka cluster.

    Connect clients to --listen. The proxy relays requests to the cluster and replaces the broker
    addresses in responses. Faults come from a file (--faults) or over HTTP (--control-listen).

    Effects: **fail** returns an error, **lose** drops the response, **cut** closes the connection,
    **duplicate** sends the request twice, **delay** and **hold** delay the response or the request,
    **throttle** reports a throttle time. Filters: api, client, broker, topic, partition. Of the
    matching requests, nth, times and probability select those that are affected. A file:

        [[faults]]     # the response of the third Produce request is lost
        effect = "lose"
        api = "PRODUCE"
        nth = 3

        [[faults]]     # 5 % of the commits fail; the seed repeats the choice
        effect = "fail"
        api = "OFFSET_COMMIT"
        error = "COORDINATOR_LOAD_IN_PROGRESS"
        probability = 0.05
        seed = 7
        times = "all"

    Ctrl-C or SIGTERM stops the proxy and prints how many requests each fault affected. If
    --kafka-config sets a security.protocol with SSL, the proxy connects to brokers with TLS; with
    --listen-config, clients connect with TLS. Logins with SASL are relayed.
    """
    from brokertwin.cli.watching.server import listen_address
    from brokertwin.gateway.faults import fault_file
    from brokertwin.gateway.http_access import HttpAccess

    if faults is None and control is None:
        raise UserError(
            "`brokertwin proxy` has no faults to inject.",
            "Pass --faults FILE, --control-listen PORT, or both.",
        )
    check_new(out, force)
    specs = fault_file.read(faults) if faults is not None else []
    settings = settings_of(config, kafka_config=kafka_config)
    at = listen_address(control, OPTION) if control is not None else None
    access = HttpAccess.read(http_access)
    ends = relay_ends(listen, broker, advertise, settings, listen_config)
    sink = None
    if out is not None:
        from brokertwin.gateway.capture.sinks import FileSink

        sink = FileSink(out)
    asyncio.run(_serve(ends, at, access, specs, sink))


async def _serve(
    ends: RelayEnds,
    control: tuple[str, int] | None,
    access: "HttpAccess",
    specs: "list[FaultSpec]",
    sink: "FileSink | None",
) -> None:
    """Relay until a signal arrives, then show the faults."""
    from brokertwin.cli.watching.server import served_control
    from brokertwin.gateway.capture.recorder import Recorder
    from brokertwin.gateway.faults.injection import FaultSet
    from brokertwin.gateway.proxy.control import app
    from brokertwin.gateway.proxy.proxy import FaultProxy

    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    recorder = Recorder(sink) if sink is not None else None
    faults = FaultSet(specs)
    tls = ends.tls, ends.listen_tls
    proxy = FaultProxy(ends.listen, ends.broker, faults, recorder, ends.advertise, *tls)

    def documents() -> list[bytes]:
        async def found() -> list[bytes]:
            return proxy.documents()

        return asyncio.run_coroutine_threadsafe(found(), loop).result()

    with ExitStack() as stack:
        await proxy.start()
        if control is not None:
            served_at = served_control(app(faults, documents), OPTION, control, access)
            say(f"control at {stack.enter_context(served_at)}")
        if recorder is not None:
            recorder.start()
        host, port = proxy.addresses[ends.broker]
        say(f"listening on {host}:{port}, {counted(len(faults.faults), 'fault')}")
        await ended.wait()
        shown = faults.faults
        await proxy.close()
        if recorder is not None:
            await recorder.close()
            recorder.raise_failure()
    for fault in shown:
        say(f"fault {fault.number}: {fault}: {fault.hits} of {fault.matches} matching requests")
