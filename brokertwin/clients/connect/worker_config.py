"""The settings of a worker, by Kafka's names and with its defaults.

Source: `WorkerConfig`, `StandaloneConfig`, `DistributedConfig` in Kafka Connect, and Kafka's
example files (group and topics). Times in ms.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from brokertwin.clients.connect.connect_protocol import ConnectProtocol
from brokertwin.clients.connect.cooperative_assignor import MAX_DELAY_MS
from brokertwin.clients.connect.file_stream import ConnectorConfigError
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.consumer_config import ConsumerConfig

DEFAULTS_OF_CONNECTORS = ("value.converter", "value.converter.schemas.enable")
"""Worker settings that connectors inherit."""

NOT_ACTED_ON = (
    *("plugin.", "listeners", "rest.", "admin.", "metric", "key.converter", "header.", "internal."),
    *("config.storage.replication.factor", "offset.storage.replication.factor"),
    *("status.storage.replication.factor", "topic.creation", "config.providers"),
)
"""Prefixes of settings that are ignored without a warning."""


class Support(StrEnum):
    """`exactly.once.source.support`."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Field names are Kafka's with `_` for `.`."""

    bootstrap_servers: str = ""
    group_id: str = "connect-cluster"
    config_storage_topic: str = "connect-configs"
    offset_storage_topic: str = "connect-offsets"
    offset_storage_partitions: int = 25
    status_storage_topic: str = "connect-status"
    status_storage_partitions: int = 5
    offset_storage_file_filename: str = "connect.offsets"
    offset_flush_interval_ms: int = 60_000
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_max_delay_ms: int = MAX_DELAY_MS
    connect_protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    exactly_once_source_support: Support = Support.DISABLED
    consumer_isolation_level: str = "read_uncommitted"
    of_connectors: dict[str, str] = {}

    @property
    def membership(self) -> ConsumerConfig:
        """The settings that every group member has."""
        return ConsumerConfig(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.rebalance_timeout_ms,
            enable_auto_commit=False,
        )

    def transactional_id(self, item: ConnectTaskId) -> str:
        """The transactional id of an exactly-once source task (KIP-618)."""
        return f"{self.group_id}-{item}"


def connection_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the TLS and SASL settings, also those with a client prefix."""
    return {name: text for name, text in properties.items() if _CONNECTION.match(name)}


_CONNECTION = re.compile(r"(producer\.|consumer\.)?(security|sasl|ssl)\.")
_PROTOCOLS = {
    "eager": ConnectProtocol.EAGER,
    **{str(each): each for each in list(ConnectProtocol)[1:]},
}


def worker_config(properties: Mapping[str, str]) -> tuple[WorkerConfig, list[str]]:
    """Parse settings; returns them and the unknown names. Raises ConnectorConfigError."""
    fields: dict[str, object] = {}
    unknown: list[str] = []
    for name, text in properties.items():
        field = name.replace(".", "_")
        if name == "connect.protocol":
            fields[field] = _PROTOCOLS.get(text.strip(), text)
        elif field in WorkerConfig.__struct_fields__ and name != "of.connectors":
            fields[field] = text.strip()
        elif name not in DEFAULTS_OF_CONNECTORS and not (
            name.startswith(NOT_ACTED_ON) or _CONNECTION.match(name)
        ):
            unknown.append(name)
    connector_defaults = {
        name: properties[name] for name in DEFAULTS_OF_CONNECTORS if name in properties
    }
    try:
        made = msgspec.convert(
            {**fields, "of_connectors": connector_defaults}, WorkerConfig, strict=False
        )
    except msgspec.ValidationError as error:
        raise ConnectorConfigError(f"The worker's settings: {error}") from None
    if made.heartbeat_interval_ms >= made.session_timeout_ms:
        raise ConnectorConfigError("heartbeat.interval.ms must be below session.timeout.ms.")
    return made, unknown
