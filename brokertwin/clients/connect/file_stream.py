"""The supported connectors: file to topic, and topics to file.

Source: `FileStreamSourceConnector`, `FileStreamSinkConnector`, `Worker.connectorTaskConfigs` in
Kafka Connect. A source has one task, whatever `tasks.max` is. A sink has `tasks.max` tasks that
share the partitions as a consumer group and append to one file.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

PACKAGE = "org.apache.kafka.connect.file."
BATCH_SIZE = 2_000
GROUP_PREFIX = "connect-"
ISOLATION = "consumer.override.isolation.level"
SESSION = "consumer.override.session.timeout.ms"
SESSION_MS = 45_000
CONVERTERS = {
    "org.apache.kafka.connect.storage.StringConverter": "string",
    "org.apache.kafka.connect.json.JsonConverter": "json",
}


class ConnectorConfigError(ValueError):
    """An invalid connector configuration; the text says what to change."""


class ConnectorKind(StrEnum):
    """By the names of Kafka's connectors."""

    SOURCE = "FileStreamSource"
    SINK = "FileStreamSink"


class FileStream(msgspec.Struct, frozen=True, kw_only=True):
    """A connector or one of its tasks.

    Attributes:
        topics: read by a sink; a source writes to the only one.
        session_timeout_ms: of a sink's consumers.
        converter: `string`, or `json`.
    """

    name: str
    kind: ConnectorKind
    file: str
    topics: tuple[str, ...]
    tasks_max: int = 1
    batch_size: int = BATCH_SIZE
    converter: str = "json"
    has_schemas: bool = True
    reads_committed: bool = False
    session_timeout_ms: int = SESSION_MS

    @property
    def task_count(self) -> int:
        return 1 if self.kind is ConnectorKind.SOURCE else self.tasks_max

    @property
    def group_id(self) -> str:
        """The consumer group of a sink's tasks."""
        return GROUP_PREFIX + self.name


def file_stream(config: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> FileStream:
    """Parse a configuration over the worker's `defaults`. Raises ConnectorConfigError."""
    settings = {**(defaults or {}), **config}
    name = _wanted(settings, "name")
    kind = _kind(_wanted(settings, "connector.class"))
    listed = (
        _wanted(settings, "topic") if kind is ConnectorKind.SOURCE else _wanted(settings, "topics")
    )
    topics = tuple(each.strip() for each in listed.split(",") if each.strip())
    converter = settings.get("value.converter", "org.apache.kafka.connect.json.JsonConverter")
    if converter not in CONVERTERS:
        names = " or ".join(CONVERTERS)
        raise ConnectorConfigError(f"{name}: value.converter is {converter}; {names} are known.")
    return FileStream(
        name=name,
        kind=kind,
        file=_wanted(settings, "file"),
        topics=topics[:1] if kind is ConnectorKind.SOURCE else topics,
        tasks_max=_number(settings, "tasks.max", 1),
        batch_size=_number(settings, "batch.size", BATCH_SIZE),
        converter=CONVERTERS[converter],
        has_schemas=settings.get("value.converter.schemas.enable", "true").lower() == "true",
        reads_committed=settings.get(ISOLATION) == "read_committed",
        session_timeout_ms=_number(settings, SESSION, SESSION_MS),
    )


def task_configs(config: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the task configurations for the config topic. Raises ConnectorConfigError."""
    stream = file_stream(config)
    made = {**config, "task.class": f"{PACKAGE}{stream.kind}Task"}
    return [dict(made) for _ in range(stream.task_count)]


def _kind(named: str) -> ConnectorKind:
    """Parse a class name, full or short."""
    short = named.removeprefix(PACKAGE).removesuffix("Connector")
    if short not in list(ConnectorKind):
        raise ConnectorConfigError(
            f"connector.class is {named}; {' and '.join(ConnectorKind)} are known."
        )
    return ConnectorKind(short)


def _wanted(config: Mapping[str, str], name: str) -> str:
    value = config.get(name, "").strip()
    if not value:
        raise ConnectorConfigError(f"{config.get('name', 'The connector')} has no {name}.")
    return value


def _number(config: Mapping[str, str], name: str, default: int) -> int:
    text = config.get(name, str(default))
    if not text.strip().isdigit() or int(text) < 1:
        raise ConnectorConfigError(
            f"{config.get('name')}: {name} is {text}, not a number of at least 1."
        )
    return int(text)
