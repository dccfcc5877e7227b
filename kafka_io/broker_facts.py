"""The settings of a real broker, for whoever decides its recording again.

What a broker has otherwise than Kafka's default decides what it answers: how long a group's first
rebalance waits, whether topics are created by a look-up. DescribeConfigs tells it. Passwords and
whatever else Kafka marks as sensitive have no value there, and are left out by name, too; so is
what tells where the broker runs and lies.

Source: org.apache.kafka.server.config.ConfigHelper, KIP-226.
"""

import re
from collections.abc import Mapping
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

TIMEOUT_S = 10.0
FIRST_LINE = "# Written by brokertwin capture"

GIVEN = frozenset(
    source.value
    for source in (
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
    )
)
"""Where a setting comes from that is not just Kafka's default."""

OF_THE_MACHINE = re.compile(
    r"(node|broker)\.id|process\.roles|(advertised\.)?listeners|.*listener.*|controller\..*"
    r"|.*log\.dirs?|broker\.rack|ssl\..*|sasl\..*|.*jaas.*|.*password.*|.*secret.*"
)
"""Settings that say where a broker runs and how it is reached: no answer of the machine's."""


def read(client: ClientProperties) -> dict[str, str]:
    """The settings that a broker has otherwise than by default, without secrets, by name.

    Args:
        client: how to reach the broker; of a cluster's brokers the one with the least id is asked.

    Raises:
        UserError: it does not answer, or refuses to tell.
    """
    admin = admin_client(client)
    try:
        broker = min(admin.list_topics(timeout=TIMEOUT_S).brokers)
        asked = ConfigResource(ResourceType.BROKER, str(broker))
        (described,) = admin.describe_configs([asked], request_timeout=TIMEOUT_S).values()
        found: Mapping[str, Any] = described.result(TIMEOUT_S)
    except (KafkaException, TimeoutError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else "no response"
        raise UserError(
            f"Could not read the broker's settings: {reason}.",
            "They need DESCRIBE_CONFIGS on the cluster; set the login in --kafka-config.",
        ) from None
    return {
        name: entry.value
        for name, entry in sorted(found.items())
        if entry.source in GIVEN and entry.value is not None and not entry.is_sensitive
        if _is_told(name)
    }


def _is_told(name: str) -> bool:
    key = SETTINGS.get(name)
    return key is not None and key.type is not Type.PASSWORD and not OF_THE_MACHINE.fullmatch(name)


def write(path: Path, values: Mapping[str, str]) -> None:
    """Write settings; over a file only where that was written here, too.

    Raises:
        UserError: the file is somebody else's, or cannot be written.
    """
    try:
        if path.exists() and not path.read_bytes().startswith(FIRST_LINE.encode()):
            raise UserError(
                f"{path} already exists and was not written by `brokertwin capture`.",
                "Pass another --out.",
            )
        about = f"{FIRST_LINE}: what the recorded broker has otherwise than Kafka's defaults.\n"
        path.write_text(about + properties.dump(values), encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror}.") from None
