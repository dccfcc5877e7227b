"""Settings of a job and its commands, as one typed object.

Precedence: flags, environment (`BROKERTWIN_<NAME>`), TOML file, defaults. Settings of the modelled
broker are separate and use Kafka's names (`--set`, `--broker-config`).
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

import brokertwin
from brokertwin import brokers as broker_ids
from brokertwin.errors import UserError
from brokertwin.places import RemotePath, place

PREFIX = "BROKERTWIN_"
FILE_NAME = "brokertwin.toml"
ALL_SETTINGS = "`brokertwin config show` lists all settings."
MASTERS = "local[N], local[*], spark://HOST:PORT, yarn or k8s://URL"
_MASTER = (
    r"local|local\[(\*|[1-9]\d*)(, *\d+)?\]|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]"
    r"|spark://[^\s,]+:\d+(,[^\s,]+:\d+)*|yarn|k8s://\S+"
)
"""Source: SparkMasterRegex in org.apache.spark.SparkContext."""

CHECK_ON = "(snapshot|state|requests|responses|records)"
SNAPSHOT_EVERY = r"[1-9]\d* (batch(es)?|seconds?|minutes?|hours?)"
SPARK_OF_THE_JOB = ("spark.sql.", "spark.speculation")
"""Prefixes of the Spark settings that affect the job's results."""

SPARK_ELSEWHERE = {
    "spark.master": "use the setting master",
    "spark.driver.memory": "use the setting driver_memory",
    "spark.ui.enabled": "use the setting spark_ui",
    "spark.jars": "use spark-submit --jars; the job adds the connector's jars itself",
}

TRIGGER = r"\d+ (milliseconds?|seconds?|minutes?)"


def default_home() -> Path:
    """Return the directory for jars, the embedded broker and checkpoints.

    It is `.brokertwin` beside the source in a clone, otherwise the user's cache directory.
    """
    root = Path(brokertwin.__file__).resolve().parent.parent
    if (root / "pyproject.toml").is_file():
        return root / ".brokertwin"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "brokertwin"


def _place(value: Any, validated: ValidatorFunctionWrapHandler) -> Path:
    return value if isinstance(value, RemotePath) else place(validated(value))


Place = Annotated[Path, WrapValidator(_place)]
"""A directory that can be in an object store."""


class Settings(BaseSettings):
    """All settings with their defaults; immutable."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    home: Path = Field(
        default_factory=default_home,
        description="directory for jars, the embedded Kafka and the default checkpoint",
    )
    bootstrap: str | None = Field(
        None, description="Kafka address, host:port,…; unset: the embedded Kafka"
    )
    kafka_config: Path | None = Field(
        None, description="file with Java client properties (TLS, SASL) for Kafka"
    )
    prefix: str = Field(
        "brokertwin",
        pattern=r"^[a-zA-Z0-9._-]{1,200}$",
        description="prefix of the job's topic names; fixed once a checkpoint exists",
    )
    clusters: Annotated[tuple[str, ...], NoDecode] = Field(
        ("default",),
        min_length=1,
        description="names of the clusters in the job; a checkpoint allows more, not fewer",
    )
    brokers: str = Field(
        "1", description="brokers of each cluster: a number, ids such as 1,2,101, or cluster=…"
    )
    cells: int = Field(1, ge=1, description="cells (parallel units of state) in each cluster")
    checkpoint: Place | None = Field(
        None, description="checkpoint directory; unset: <home>/checkpoints/<prefix>"
    )
    master: str = Field("local[*]", description="Spark master URL")
    spark_conf: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Spark configuration, name=value; separated by ; in the environment"
    )
    spark_ui: bool = Field(False, description="serve Spark's own UI; run prints the address")
    driver_memory: str = Field(
        "2g",
        pattern=r"^\d+[kmgKMG]$",
        description="heap of the Spark driver; with a local master, of the whole job",
    )
    shuffle_partitions: int = Field(
        2, ge=1, description="Spark tasks that process the cells; fixed once a checkpoint exists"
    )
    trigger: str = Field(
        "0 seconds",
        pattern=f"^{TRIGGER}$",
        description="time between micro-batch starts; 0 seconds: as soon as possible",
    )
    max_offsets_per_trigger: int = Field(
        100_000, ge=1, description="maximum number of events in a micro-batch"
    )
    max_bytes_per_trigger: int = Field(
        64 * 1024 * 1024,
        ge=1,
        description="maximum bytes of events in a micro-batch; each partition may add one event",
    )
    event_time: Literal["append", "recorded"] = Field(
        "append",
        description="append: clamp event times to LogAppendTime; recorded: take them as written",
    )
    event_time_max_skew_ms: int = Field(
        5_000, ge=0, description="maximum distance of an event's time from its LogAppendTime"
    )
    interventions: bool = Field(
        False, description="accept `brokertwin cluster` commands: stop, isolate, …"
    )
    records: bool | None = Field(
        None,
        description="write every change of durable state to <prefix>.records;"
        " unset: only if a cluster has several cells",
    )
    snapshots: Place | None = Field(
        None, description="snapshot directory; unset: <home>/snapshots/<prefix>"
    )
    snapshot_every: str | None = Field(
        None,
        pattern=f"^{SNAPSHOT_EVERY}$",
        description="how often `run` takes a snapshot: 100 batches, 90 seconds, 5 minutes, 1 hour",
    )
    snapshots_keep: int = Field(
        10, ge=1, description="number of newest snapshots that `run` keeps; it deletes older ones"
    )
    snapshots_keep_hours: float | None = Field(
        None, gt=0, description="maximum age of kept snapshots; the newest is always kept"
    )
    snapshot_suite: str | None = Field(
        None,
        description="suite that a snapshot must pass: default or a file; others go to rejected/",
    )
    check_every: str | None = Field(
        None,
        pattern=f"^{SNAPSHOT_EVERY}$",
        description="how often `run` checks the newest micro-batch; same form as snapshot_every",
    )
    check_on: str = Field(
        "snapshot",
        pattern=f"^{CHECK_ON}(, *{CHECK_ON})*$",
        description="what these checks read: snapshot (committed offsets), state, requests,"
        " responses, records",
    )
    check_suite: str = Field("default", description="suite for these checks: default or a file")
    check_policy: Literal["warn", "hold", "stop"] = Field(
        "warn",
        description="when a check fails: warn logs it, hold takes no snapshots, stop ends the job",
    )
    follow_offsets: str | None = Field(
        None, description="address of another Kafka whose committed offsets `run` imports"
    )
    follow_into: Path | None = Field(
        None, description="directory for these imported offsets, read by `offsets`"
    )
    follow_kafka_config: Path | None = Field(
        None, description="file with Java client properties (TLS, SASL) for that Kafka"
    )
    stop_timeout_s: float = Field(
        60.0, gt=0, description="how long SIGTERM and SIGINT wait for the running batch to commit"
    )
    requests_partitions: int = Field(
        4, ge=1, description="partitions of <prefix>.requests; fixed once a checkpoint exists"
    )
    responses_partitions: int = Field(
        4, ge=1, description="partitions of <prefix>.responses; fixed once it exists"
    )
    data_partitions: int = Field(
        4, ge=1, description="partitions of <prefix>.data; fixed once it exists"
    )
    ivy_settings: Path | None = Field(
        None, description="Ivy settings file for downloading jars from a mirror"
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="format of standard error: lines, or json with one document a line"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level written to standard error; progress is info"
    )

    @field_validator("clusters", mode="before")
    @classmethod
    def _split_clusters(cls, value: object) -> object:
        """Split names at commas, as the environment variable has them."""
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("clusters")
    @classmethod
    def _cluster_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Check the names, which become part of topic names."""
        for name in value:
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", name):
                raise ValueError(f"{name!r} is not 1 to 40 of the characters a-z A-Z 0-9 _ -")
        if len(set(value)) < len(value):
            raise ValueError("a name occurs twice")
        return value

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _split_spark_conf(cls, value: object) -> object:
        """Split at semicolons, as the environment variable has them: values can have commas."""
        if not isinstance(value, str):
            return value
        return [part.strip() for part in value.split(";") if part.strip()]

    @field_validator("spark_conf")
    @classmethod
    def _spark_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Reject Spark settings that affect results or have their own setting here."""
        for pair in value:
            name, equals, _ = pair.partition("=")
            if not equals or not name.startswith("spark."):
                raise ValueError(f"{pair!r} is not spark.NAME=VALUE")
            if name.startswith(SPARK_OF_THE_JOB):
                raise ValueError(f"{name} cannot be changed because the job's results depend on it")
            if name in SPARK_ELSEWHERE:
                raise ValueError(f"{name} is not allowed here: {SPARK_ELSEWHERE[name]}")
        return value

    @field_validator("master")
    @classmethod
    def _known_master(cls, value: str) -> str:
        """Check the master here, because Spark would report it with a Java stack trace."""
        if not re.fullmatch(_MASTER, value):
            raise ValueError(f"expected {MASTERS}")
        return value

    @field_validator("brokers", mode="before")
    @classmethod
    def _broker_ids(cls, value: object) -> object:
        """Accept a number, because TOML has integers."""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str):
            broker_ids.parse(text)
        return text

    def brokers_of(self, cluster: str) -> list[int]:
        """Return a cluster's broker ids in ascending order."""
        return broker_ids.brokers_of(self.brokers, cluster)

    @property
    def spark_configuration(self) -> dict[str, str]:
        """The pairs of `spark_conf` by name; the last value of a repeated name wins."""
        pairs = (pair.partition("=") for pair in self.spark_conf)
        return {name: value for name, _, value in pairs}

    @property
    def writes_records(self) -> bool:
        """True if the job writes the topic `records`."""
        return self.cells > 1 if self.records is None else self.records

    @property
    def checkpoint_dir(self) -> Path:
        return self.checkpoint or self.home / "checkpoints" / self.prefix

    @property
    def snapshots_dir(self) -> Path:
        return self.snapshots or self.home / "snapshots" / self.prefix

    @property
    def kafka_home(self) -> Path:
        """The embedded broker's directory."""
        return self.home / "kafka"


@dataclass(frozen=True)
class Loaded:
    """Settings and the source of each.

    Attributes:
        sources: setting name to `flag`, `environment BROKERTWIN_X`, `file PATH` or `default`.
    """

    settings: Settings
    sources: Mapping[str, str]


def load(flags: Mapping[str, object] | None = None, file: Path | None = None) -> Loaded:
    """Combine the settings of all sources.

    Args:
        flags: values from the command line; None and an empty list mean not given.
        file: the TOML file; default: `brokertwin.toml` in the working directory, if it exists.

    Raises:
        UserError: a file is not readable, a key or `BROKERTWIN_…` variable is unknown, or a value
            is not allowed.
    """
    _refuse_unknown_variables()
    flag_values = {
        name: value for name, value in (flags or {}).items() if value not in (None, [], ())
    }
    path = file or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    in_file = _read_toml(path) if path else {}
    environment = {name for name in Settings.model_fields if os.environ.get(_variable(name))}
    sources = {
        **dict.fromkeys(Settings.model_fields, "default"),
        **dict.fromkeys(in_file, f"file {path}"),
        **{name: f"environment {_variable(name)}" for name in environment},
        **dict.fromkeys(flag_values, "flag"),
    }
    below = {name: value for name, value in in_file.items() if name not in environment}
    values: dict[str, Any] = {**below, **flag_values}
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise UserError(*_explain(error, sources)) from None
    return Loaded(settings, sources)


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _read_toml(path: Path) -> dict[str, Any]:
    """Read the TOML file and reject unknown keys."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"Cannot read the settings file {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The settings file {path} is not valid TOML: {error}.") from None
    for name in values:
        if name not in Settings.model_fields:
            raise UserError(f"Unknown setting {name} in {path}.", nearest(name))
    return values


def nearest(name: str) -> str:
    """Return a hint that names the settings most similar to an unknown one."""
    near = difflib.get_close_matches(name.lower(), Settings.model_fields, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return ALL_SETTINGS


def _explain(error: ValidationError, sources: Mapping[str, str]) -> tuple[str, str]:
    """Return a message for the first invalid value, and a hint."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "settings"
    reason = str(first["msg"]).removeprefix("Value error, ")
    field = Settings.model_fields.get(name)
    if field is None:
        return f"Unknown setting {name}.", nearest(name)
    message = f"Invalid value of {name}: {first['input']!r} (from {sources[name]}): {reason}."
    return message, f"{name}: {field.description}."


def _refuse_unknown_variables() -> None:
    """Raise UserError if a `BROKERTWIN_…` variable has a value but is not a setting."""
    variables = [_variable(name) for name in Settings.model_fields]
    for variable in sorted(os.environ):
        if variable.startswith(PREFIX) and variable not in variables and os.environ[variable]:
            name = variable.removeprefix(PREFIX).lower()
            near = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.6)
            hint = f"Did you mean {_variable(near[0])}?" if near else ALL_SETTINGS
            raise UserError(f"Unknown setting {variable} in the environment.", hint)
