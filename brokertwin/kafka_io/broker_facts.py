"""Settings of a real broker, for replaying its recording.

Settings that differ from Kafka's defaults affect responses, such as the delay of a group's first
rebalance or automatic topic creation. DescribeConfigs returns them. Sensitive values are empty
there and are also omitted by name, as are settings of the broker's machine.

Source: org.apache.kafka.server.config.ConfigHelper, KIP-226.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from brokertwin.errors import UserError
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import admin_client
from brokertwin.state.configs.broker_config import SETTINGS
from brokertwin.state.configs.config_keys import Type
from brokertwin.state.core.settings import KAFKA_4_4, RELEASE

TIMEOUT_S = 10.0
FIRST_LINE = "# Written by brokertwin capture"

SINCE_4_4 = "group.streams.assignors"
"""Brokers have this setting since Kafka 4.4, whose rules differ from those of 4.3."""

GIVEN = frozenset(
    source.value
    for source in (
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
    )
)
"""Sources of settings other than Kafka's defaults."""

OF_THE_MACHINE = re.compile(
    r"(node|broker)\.id|process\.roles|(advertised\.)?listeners|.*listener.*|controller\..*"
    r"|.*log\.dirs?|broker\.rack|ssl\..*|sasl\..*|.*jaas.*|.*password.*|.*secret.*"
)
"""Settings of a broker's machine and network, which do not affect responses."""


def read(client: ClientProperties) -> dict[str, str]:
    """Read a broker's non-default settings without secrets, by name.

    Args:
        client: connection properties; the broker with the lowest id is queried.

    Raises:
        UserError: no response, or no permission.
    """
    admin = admin_client(client)
    try:
        broker = min(admin.list_topics(timeout=TIMEOUT_S).brokers)
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        (described,) = admin.describe_configs([resource], request_timeout=TIMEOUT_S).values()
        configs: Mapping[str, Any] = described.result(TIMEOUT_S)
    except (KafkaException, TimeoutError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else "no response"
        raise UserError(
            f"Could not read the broker's settings: {reason}.",
            "They need DESCRIBE_CONFIGS on the cluster; set the login in --kafka-config.",
        ) from None
    found = {
        name: entry.value
        for name, entry in sorted(configs.items())
        if entry.source in GIVEN and entry.value is not None and not entry.is_sensitive
        if _is_kept(name)
    }
    return {**release_of(configs), **found}


def release_of(names: Collection[str]) -> dict[str, str]:
    """Return the model's setting for a release whose brokers have these settings."""
    return {RELEASE: KAFKA_4_4} if SINCE_4_4 in names else {}


def _is_kept(name: str) -> bool:
    key = SETTINGS.get(name)
    return key is not None and key.type is not Type.PASSWORD and not OF_THE_MACHINE.fullmatch(name)


def write(path: Path, values: Mapping[str, str]) -> None:
    """Write settings; overwrite only a file written by this function.

    Raises:
        UserError: the file has another origin or cannot be written.
    """
    try:
        if path.exists() and not path.read_bytes().startswith(FIRST_LINE.encode()):
            raise UserError(
                f"{path} already exists and was not written by `brokertwin capture`.",
                "Pass another --out.",
            )
        about = (
            f"{FIRST_LINE}: settings of the recorded broker that differ from Kafka's defaults.\n"
        )
        path.write_text(about + properties.dump(values), encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror}.") from None
