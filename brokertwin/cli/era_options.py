"""Options --era, --trace and --version of clients and brokers of other Kafka versions."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.output import say
from brokertwin.clients.era import Era
from brokertwin.errors import UserError
from brokertwin.state.eras.versions import SETTINGS, TRACES, BrokerEra

if TYPE_CHECKING:
    from brokertwin.gateway.admin.releases import Release

EraOption = Annotated[
    Era | None,
    typer.Option(
        "--era",
        help="Rules and defaults of a former Kafka version; API versions do not change.",
    ),
]
Trace = Annotated[
    bool,
    typer.Option(
        "--trace",
        help="Print log lines like those of former Kafka clients on standard error: metadata,"
        " connections, batches, fetch sessions.",
    ),
]
BrokerEraOption = Annotated[
    BrokerEra | None,
    typer.Option(
        "--era",
        help="Rules and defaults of brokers of a former Kafka version; --set and --broker-config"
        " win. A gateway needs --engine local: a job has its own.",
    ),
]
BrokerTrace = Annotated[
    bool,
    typer.Option(
        "--trace",
        help="Print log lines like those of former brokers on standard error: fetch sessions,"
        " fetcher threads, replicated records, completed requests. A gateway needs --engine local,"
        " a job --records.",
    ),
]
KafkaVersion = Annotated[
    str | None,
    typer.Option(
        "--version",
        metavar="4.4|4.3|…|2.8",
        help="With --engine local: release of Kafka whose API versions are offered, 4.4 with its"
        " rules. Default: 4.3.",
    ),
]


def broker_defaults(
    era: BrokerEra | None, is_traced: bool, offered: "Release | None", is_local: bool
) -> dict[str, str]:
    """Return the settings of brokers of another version. Raises UserError for a job's brokers."""
    from brokertwin.gateway.admin.releases import settings_of

    if not is_local and (era is not None or is_traced or offered is not None):
        raise UserError(
            "Cannot combine --era, --trace and --version with --engine spark: the job has the"
            " brokers.",
            "Pass --era and --trace to `brokertwin run` instead.",
        )
    return {**settings_of(offered), **job_defaults(era, is_traced)}


def job_defaults(era: BrokerEra | None, is_traced: bool) -> dict[str, str]:
    """Return the settings of brokers of an era, with those for log lines."""
    return {**(SETTINGS[era] if era else {}), **(TRACES if is_traced else {})}


def tracer(is_wanted: bool, *, with_threads: bool = False) -> Callable[[str], None] | None:
    """Return the function that prints a line with the time, and its thread if wanted, or None."""

    def show(line: str) -> None:
        now = datetime.now().astimezone()
        thread = f"[{threading.current_thread().name}] " if with_threads else ""
        say(f"[{now:%H:%M:%S},{now.microsecond // 1000:03}] {thread}{line}")

    return show if is_wanted else None
