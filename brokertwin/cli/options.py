"""Options that several commands share, and the settings built from them.

A command lists the options it needs by these types and builds its settings with one call:

    def command(bootstrap: Bootstrap = None, prefix: Prefix = None, config: ConfigFile = None):
        settings = settings_of(config, bootstrap=bootstrap, prefix=prefix)

Commands with many common options take them as one parameter (`with_options`), commands with many
settings take those (`with_settings`).
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.core import TyperGroup

from brokertwin.errors import UserError
from brokertwin.wording import with_full_stop

if TYPE_CHECKING:
    from brokertwin.gateway.edge_fields import Address
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings

PORTS = range(2**16)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML settings file; default: ./brokertwin.toml, if it exists.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,…",
        help="Kafka's address; default: the embedded broker.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="Java client properties (TLS, SASL) for connecting to Kafka.",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", metavar="NAME", help="Prefix of the names of the job's topics."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", help="The job's checkpoint directory."),
]
Snapshots = Annotated[
    Path | None,
    typer.Option(
        "--snapshots",
        metavar="DIR",
        help="Directory of snapshots; default: HOME/snapshots/PREFIX.",
    ),
]
StateMaster = Annotated[
    str, typer.Option("--master", metavar="URL", help="Spark master, if Spark is needed to read.")
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master; default: local[*].")
]
JobCluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="The cluster, if the job has several."),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME|BATCH",
        help="State after micro-batch BATCH, or after the newest that started by TIME"
        " (2026-03-01T12:00:03). For recordings: a time or an exchange (orders.jsonl:120).",
    ),
]
BrokerSet = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Broker setting by Kafka's name; repeatable."),
]
BrokerConfig = Annotated[
    Path | None,
    typer.Option(
        "--broker-config",
        metavar="FILE",
        help="Broker settings from a .properties file; --set overrides it.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
HttpListen = Annotated[
    str | None,
    typer.Option(
        "--http-listen",
        metavar="[HOST:]PORT",
        help="Serve a status page, /status.json, /metrics for Prometheus, /healthz and /readyz."
        " 9404 means 127.0.0.1:9404; 0.0.0.0:9404 is every address of this machine. Without"
        " --http-access there is no authentication. Port 0: any free port.",
    ),
]
HttpAccessFile = Annotated[
    Path | None,
    typer.Option(
        "--http-access",
        metavar="FILE",
        help="TOML file for the HTTP port: token, certificate (PEM) for HTTPS, hosts.",
    ),
]


class HttpPort(NamedTuple):
    """Address of an HTTP port, and the file that says who may use it."""

    listen: str | None
    access: Path | None


AsJson = Annotated[bool, typer.Option("--json", "-J", help="Print JSON instead of a table.")]


Command = Callable[..., None]


def with_options(
    parameter: str, make: Callable[..., Any], options: Mapping[str, tuple[Any, Any]]
) -> Callable[[Command], Command]:
    """Return a decorator that replaces a command's parameter by several options.

    Args:
        parameter: name of the parameter.
        make: returns its value, given the options by name.
        options: type and default of each option, by name.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def called(**given: Any) -> None:
            value = make(**{name: given.pop(name) for name in options})
            command(**{parameter: value}, **given)

        own = inspect.signature(command, eval_str=True)
        made = [
            inspect.Parameter(name, keyword, annotation=kind, default=default)
            for name, (kind, default) in options.items()
        ]
        others = [each.replace(kind=keyword) for each in own.parameters.values()]
        at = list(own.parameters).index(parameter)
        called.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*others[:at], *made, *others[at + 1 :]]
        )
        return called

    return decorated


def options_of(kind: type[NamedTuple]) -> dict[str, tuple[Any, Any]]:
    """Return the fields of a tuple as options for `with_options`."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: (hints[name], default) for name, default in kind._field_defaults.items()}


METAVARS = {
    "DIR": ("checkpoint", "follow_into", "snapshots"),
    "FILE": ("kafka_config",),
    "HOST:PORT": ("follow_offsets",),
    "HOST:PORT,…": ("bootstrap",),
    "KIND,…": ("check_on",),
    "N": ("cells",),
    "N UNIT": ("check_every", "snapshot_every"),
    "NAME": ("clusters", "prefix"),
    "NAME=VALUE": ("spark_conf",),
    "SECONDS": ("stop_timeout_s",),
    "TIME": ("trigger",),
    "URL": ("master",),
    "[CLUSTER=]N|IDS": ("brokers",),
    "default|FILE": ("check_suite", "snapshot_suite"),
}
"""How the help shows the values of settings."""

FLAGS = {
    "bootstrap": ("--bootstrap", "-b"),
    "clusters": ("--cluster",),
    "records": ("--records/--no-records",),
    "stop_timeout_s": ("--stop-timeout",),
}
"""Options of settings whose names are not those of the settings."""


def with_settings(*names: str, **defaults: str) -> Callable[[Command], Command]:
    """Return a decorator that replaces a command's parameter `settings` by options.

    Each option has the type and the description of its setting; `--config` follows them.

    `defaults`: values of options that are not on the command line.
    """

    def made(config: Path | None, **given: Any) -> "Settings":
        is_given = {name: value not in (options[name][1], []) for name, value in given.items()}
        flags = {name: value for name, value in given.items() if is_given[name]}
        if "brokers" in flags:
            flags["brokers"] = " ".join(flags["brokers"])
        return settings_of(config, **{**defaults, **flags})

    options = {name: _option(name) for name in names}
    return with_options("settings", made, {**options, "config": (ConfigFile, None)})


def _option(name: str) -> tuple[Any, Any]:
    """Return the type and the default of a setting's option."""
    from brokertwin.settings import Settings

    field = Settings.model_fields[name]
    parts = {field.annotation, *get_args(field.annotation)}
    literal = get_origin(field.annotation) is Literal
    of: Any = next((kind for kind in (bool, int, float) if kind in parts), str)
    if get_origin(field.annotation) is tuple or name == "brokers":
        of = list[str]
    elif "Path" in str(field.annotation):
        of = Path
    text = re.sub("<(.*?)>", lambda found: found[1].upper(), field.description or "")
    text = text if literal else text[0].upper() + text[1:]
    metavars = [shown for shown, settings in METAVARS.items() if name in settings]
    option = typer.Option(
        *FLAGS.get(name, (f"--{name.replace('_', '-')}",)),
        metavar="|".join(get_args(field.annotation) if literal else metavars) or None,
        help=f"{text}{'; repeatable' * (of == list[str])}.",
        show_default=False,
    )
    is_flag = field.annotation is bool
    return Annotated[of if is_flag else of | None, option], False if is_flag else None


def address(option: str, text: str) -> "Address":
    """Parse an option HOST:PORT; an IPv6 address has brackets.

    Raises:
        UserError: the value is invalid.
    """
    from brokertwin.gateway.edge_fields import Address

    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) not in PORTS:
        raise UserError(f"Invalid value of {option}: {text!r}.", "Pass HOST:PORT: localhost:9092.")
    return Address(host.strip("[]"), int(port))


class HelpfulGroup(TyperGroup):
    """Show the help if called without arguments; that is not an error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as click does, whose `no_args_is_help` would exit with code 2."""
        if not args and not ctx.resilient_parsing:
            args = ["--help"]
        return super().parse_args(ctx, args)


def group() -> typer.Typer:
    """Create an app with subcommands; its callback's docstring is its help."""
    return typer.Typer(cls=HelpfulGroup, add_completion=False, rich_markup_mode="markdown")


def settings_of(config: Path | None, **flags: object) -> "Settings":
    """Build the settings from flags, environment, TOML file and defaults, and set up logging.

    Args:
        config: the value of `--config`.
        flags: setting name to the flag's value; None means not given. Without `--master`, the
            master of `spark-submit` counts as a flag.

    Raises:
        UserError: as `brokertwin.settings.load`.
    """
    from brokertwin.cli import logs
    from brokertwin.settings import load
    from brokertwin.streaming.job import spark_submit

    if flags.get("master") is None and spark_submit.is_active():
        flags["master"] = spark_submit.master()
    settings = load(flags, config).settings
    logs.configure(settings)
    return settings


def kafka_of(settings: "Settings") -> "ClientProperties":
    """Return the properties for Kafka; warns about those without effect. Raises UserError."""
    from brokertwin.cli.output import warn
    from brokertwin.kafka_io.kafka_clients import client_properties

    client = client_properties(settings)
    for warning in client.warnings():
        warn(warning)
    return client


def client_of(address: str, kafka_config: Path | None) -> "ClientProperties":
    """Return the properties for a cluster. Raises UserError if the address is invalid."""
    from brokertwin.kafka_io.kafka_clients import client_properties

    if ":" not in address:
        raise UserError(f"Invalid address {address!r}.", "Pass HOST:PORT: kafka-1:9092.")
    settings = settings_of(None, bootstrap=address, kafka_config=kafka_config)
    return client_properties(settings)


def selected_cluster(clusters: Collection[str], name: str | None) -> str:
    """Return the job's cluster with this name, or its only cluster. Raises UserError."""
    names = ", ".join(sorted(clusters))
    if name is None and len(clusters) == 1:
        return next(iter(clusters))
    if name is None:
        raise UserError(f"The job has several clusters: {names}.", "Select one with --cluster.")
    if name not in clusters:
        raise UserError(f"The job has no cluster {name}.", f"Pass --cluster with one of: {names}.")
    return name


def named_values(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Split the values of a repeatable NAME=VALUE option; the last value of a name wins.

    Raises:
        UserError: a value has no `=` or no name.
    """
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UserError(f"Invalid value of {option}: {pair!r}.", "Pass NAME=VALUE.")
        values[name.strip()] = value.strip()
    return values


def broker_settings(file: Path | None, pairs: Sequence[str] | None) -> dict[str, str]:
    """Return broker settings of `--broker-config`, overridden by `--set`, without checks."""
    from brokertwin.kafka_io import properties

    in_file = properties.read(file) if file else {}
    return {**in_file, **named_values("--set", pairs)}


def typed_broker_settings(
    file: Path | None,
    pairs: Sequence[str] | None,
    also_acted_on: Collection[str] = (),
    defaults: Mapping[str, str] | None = None,
) -> "BrokerSettings":
    """Return checked broker settings; warns about those without effect.

    Args:
        file: the value of `--broker-config`.
        pairs: the values of `--set`.
        also_acted_on: further settings that this command uses.
        defaults: values of settings that neither gives.

    Raises:
        UserError: Kafka has no such setting, or would reject the value.
    """
    from brokertwin.cli.output import warn

    texts = {**(defaults or {}), **broker_settings(file, pairs)}
    typed, warnings = checked_broker_settings(texts)
    for warning in warnings:
        if warning.partition(" ")[0] not in also_acted_on:
            warn(warning)
    return typed


def checked_broker_settings(values: Mapping[str, str]) -> "tuple[BrokerSettings, list[str]]":
    """Check settings as Kafka does; returns them typed, with warnings.

    Raises:
        UserError: Kafka has no such setting, or would reject the value.
    """
    from brokertwin.state.configs.broker_config import UnknownSettingError, parse
    from brokertwin.state.configs.config_keys import InvalidConfigError
    from brokertwin.state.core.settings import KAFKA_4_4, RELEASE

    try:
        return parse(values)
    except UnknownSettingError as error:
        near = " or ".join(error.nearest)
        hint = f"Did you mean {near}?" if near else "Use Kafka's setting names."
        if error.is_of_4_4:
            hint = f"Kafka 4.4 has it, with {RELEASE}={KAFKA_4_4}."
        raise UserError(f"Kafka 4.3 has no broker setting {error.name}.", hint) from None
    except InvalidConfigError as error:
        raise UserError(with_full_stop(error)) from None
