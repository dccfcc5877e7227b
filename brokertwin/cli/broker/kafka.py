"""`brokertwin kafka`: the embedded Kafka broker."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import (
    AsJson,
    ConfigFile,
    checked_broker_settings,
    group,
    named_values,
    settings_of,
)
from brokertwin.cli.output import out, say, show_fields, show_json
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_broker import BrokerStatus, EmbeddedKafka

NOT_RUNNING = 3

app = group()

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="The broker's data directory; one per broker."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="Broker property; repeatable."),
]

RequestLog = Annotated[
    bool,
    typer.Option(
        "--request-log", help="Write every request to kafka-request.log, for `audit` and `explain`."
    ),
]
ToolName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Like kafka-topics; without it all tools are listed."),
]
ToolWords = Annotated[
    list[str] | None, typer.Argument(metavar="ARGUMENT", help="Arguments of the tool.")
]
PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.callback()
def kafka_command() -> None:
    """Run a real Apache Kafka broker on this machine, for trials and tests.

    It is a single KRaft node on free ports of localhost. `stop` only stops a broker that was
    started by this command.
    """


@app.command()
def start(
    data_dir: DataDir = None,
    properties: Properties = None,
    request_log: RequestLog = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Start the broker and wait until it responds; a running broker is left as it is."""
    property_values = named_values("--property", properties)
    of_ours = [name for name in property_values if name.startswith("brokertwin.")]
    if of_ours:
        raise UserError(
            f"{of_ours[0]} is a setting of the broker model, not of Apache Kafka.",
            "Leave it out of --property.",
        )
    checked_broker_settings(property_values)
    broker = _broker(data_dir, config)
    broker.start(property_values, say, request_log)
    if request_log:
        say(f"requests are logged in {broker.request_log}")
    _show(broker.status(), as_json)


@app.command()
def stop(data_dir: DataDir = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Stop the broker; its data is kept."""
    broker = _broker(data_dir, config)
    was_running = broker.stop()
    if as_json:
        show_json({"stopped": was_running})
    else:
        out.print("stopped" if was_running else "was not running")


@app.command()
def status(data_dir: DataDir = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show the broker's status and address; exits with code 3 if it is not running."""
    now = _broker(data_dir, config).status()
    _show(now, as_json)
    if not now.running:
        raise typer.Exit(NOT_RUNNING)


@app.command(context_settings=PASSED_ON)
def tools(name: ToolName = None, words: ToolWords = None) -> None:
    """Run one of Kafka's own command-line tools, fetched once; its exit code is this command's.

    Everything behind the name goes to the tool: `brokertwin kafka tools kafka-topics --help`.
    """
    from brokertwin.kafka_io import kafka_tools

    if name is None:
        for each in kafka_tools.CLASSES:
            typer.echo(each)
        return
    settings = settings_of(None)
    code = kafka_tools.run(name, words or (), settings.home, settings.ivy_settings, say)
    raise typer.Exit(code)


def _broker(data_dir: Path | None, config: Path | None) -> "EmbeddedKafka":
    from brokertwin.kafka_io.kafka_broker import EmbeddedKafka

    settings = settings_of(config)
    return EmbeddedKafka(data_dir or settings.kafka_home, settings.home, settings.ivy_settings)


def _show(status: "BrokerStatus", as_json: bool) -> None:
    values = asdict(status)
    if status.started is not None:
        values["started"] = datetime.fromtimestamp(status.started, UTC).isoformat(" ", "seconds")
    if as_json:
        show_json(values)
    else:
        show_fields(values)
