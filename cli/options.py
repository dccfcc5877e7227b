"""Options that several commands share, and the settings made of them.

A command takes the options it needs by these types and puts its settings together with one call:

    def command(bootstrap: Bootstrap = None, prefix: Prefix = None, config: ConfigFile = None):
        settings = settings_of(config, bootstrap=bootstrap, prefix=prefix)
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.answers import Address
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings

PORTS = range(2**16)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file of settings; without it ./brokertwin.toml, if there.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="Kafka's address; without it the embedded broker.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="Java client properties (TLS, SASL) for reaching Kafka.",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", metavar="NAME", help="What the names of the topics begin with."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", help="The job's checkpoint directory."),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="BATCH|TIME",
        help="As micro-batch BATCH has left it, or the newest that began by TIME"
        " (2026-03-01T12:00:03). Of recordings a time, or an exchange (orders.jsonl:120).",
    ),
]
BrokerSet = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A broker setting by Kafka's own name; repeatable."
    ),
]
BrokerConfig = Annotated[
    Path | None,
    typer.Option(
        "--broker-config",
        metavar="FILE",
        help="Broker settings from a .properties file; --set goes before it.",
    ),
]
HttpListen = Annotated[
    str | None,
    typer.Option(
        "--http-listen",
        metavar="[HOST:]PORT",
        help="Serve a page, /status.json, /metrics for Prometheus, /healthz and /readyz there:"
        " 9404 is 127.0.0.1:9404; 0.0.0.0:9404 is every address of this machine. Nobody is asked"
        " who it is. Port 0: any.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def address(option: str, text: str) -> "Address":
    """The host and port of an option HOST:PORT; an IPv6 address stands in brackets.

    Raises:
        UserError: it is no such thing.
    """
    from brokertwin.gateway.answers import Address

    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) not in PORTS:
        raise UserError(f"{option} {text}: expected HOST:PORT.")
    return Address(host.strip("[]"), int(port))


class HelpfulGroup(TyperGroup):
    """Called without arguments it shows its help, which is no error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does it, whose own `no_args_is_help` has exit code 2."""
        if not args and not ctx.resilient_parsing:
            args = ["--help"]
        return super().parse_args(ctx, args)


def group() -> typer.Typer:
    """An app for a command with subcommands; give it a callback whose docstring is its help."""
    return typer.Typer(cls=HelpfulGroup, add_completion=False, rich_markup_mode="markdown")


def settings_of(config: Path | None, **flags: object) -> "Settings":
    """Put the settings together and log as they say: flags, environment, TOML file, defaults.

    Args:
        config: the value of `--config`.
        flags: setting name to the flag's value; None means not given. The master that
            `spark-submit` was given counts as a flag where `--master` is not given.

    Raises:
        UserError: as `brokertwin.settings.load`.
    """
    from brokertwin.cli import logs
    from brokertwin.settings import load
    from brokertwin.streaming import spark_submit

    if flags.get("master") is None and spark_submit.is_active():
        flags["master"] = spark_submit.master()
    settings = load(flags, config).settings
    logs.configure(settings)
    return settings


def named_values(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Split the values of a repeatable NAME=VALUE option; of a repeated name the last counts.

    Raises:
        UserError: there is no `=`, or no name before it.
    """
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UserError(f"{option} {pair}: expected NAME=VALUE.")
        values[name.strip()] = value.strip()
    return values


def broker_settings(file: Path | None, pairs: Sequence[str] | None) -> dict[str, str]:
    """The broker settings of `--broker-config` and, over them, `--set`; names are not checked."""
    from brokertwin.kafka_io import properties

    in_file = properties.read(file) if file else {}
    return {**in_file, **named_values("--set", pairs)}


def typed_broker_settings(
    file: Path | None, pairs: Sequence[str] | None, also_acted_on: Collection[str] = ()
) -> "BrokerSettings":
    """The settings of `broker_settings`, checked as Kafka does; warns of those without effect.

    Args:
        file: the value of `--broker-config`.
        pairs: the values of `--set`.
        also_acted_on: settings that this command itself heeds.

    Raises:
        UserError: Kafka has no such setting, or would refuse the value.
    """
    from brokertwin.cli.output import warn

    typed, warnings = checked_broker_settings(broker_settings(file, pairs))
    for warning in warnings:
        if warning.partition(" ")[0] not in also_acted_on:
            warn(warning)
    return typed


def checked_broker_settings(values: Mapping[str, str]) -> "tuple[BrokerSettings, list[str]]":
    """Settings by Kafka's names, checked as Kafka does, and what is to be said of them.

    Raises:
        UserError: Kafka has no such setting, or would refuse the value.
    """
    from brokertwin.state.configs.broker_config import UnknownSettingError, parse
    from brokertwin.state.configs.config_keys import InvalidConfigError

    try:
        return parse(values)
    except UnknownSettingError as error:
        near = " or ".join(error.nearest)
        hint = f"Did you mean {near}?" if near else "Settings go by Kafka's own names."
        raise UserError(f"Kafka 4.3 has no broker setting {error.name}.", hint) from None
    except InvalidConfigError as error:
        raise UserError(f"{error}.") from None
