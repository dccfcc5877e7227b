"""Settings of client metrics: what clients are asked to tell of themselves, and which clients.

A subscription has a name. Kafka's clients ask for those that match them with
GetTelemetrySubscriptions, which a broker names only where a plugin takes what they push; there is
none here, so the settings are kept, checked and described as by a broker without one. Such a broker
answers who asks all the same, which is not done. KIP-714.

An expression that clients are matched with is read as Python reads it, not Java.

Source: `ClientMetricsConfigs` in Kafka; answers of 4.3.1.
"""

import re
from collections.abc import Mapping

from brokerstream.state.configs.config_keys import INT, LIST, ConfigKey, InvalidConfigError, parse
from brokerstream.state.core.errors import Error
from brokerstream.state.core.java_hashes import hash_order

INTERVAL = "interval.ms"
MATCH = "match"
METRICS = "metrics"
LEAST_MS, MOST_MS = 100, 3_600_000

CLIENT_METRICS_CONFIGS: dict[str, ConfigKey] = {
    METRICS: ConfigKey(LIST, ""),
    INTERVAL: ConfigKey(INT, "300000"),
    MATCH: ConfigKey(LIST, ""),
}
"""Every setting of a subscription."""

MATCHED = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What an expression may be about."""


def fault(configs: Mapping[str, str]) -> tuple[Error, str] | None:
    """What Kafka would say against a subscription's settings; None: it takes them."""
    for name in hash_order(sorted(configs), len(configs)):
        if name not in CLIENT_METRICS_CONFIGS:
            return Error.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
    for name, key in CLIENT_METRICS_CONFIGS.items():
        try:
            value = parse(name, key, configs.get(name, key.default or ""))
        except InvalidConfigError as error:
            return Error.INVALID_CONFIG, str(error)
        if isinstance(value, int) and not LEAST_MS <= value <= MOST_MS:
            bounds = f"interval must be between {LEAST_MS} and {MOST_MS} (1 hour)"
            return Error.INVALID_REQUEST, f"Invalid value {value} for {name}, {bounds}"
        for pattern in value if name == MATCH and isinstance(value, list) else ():
            if not _is_pattern(pattern):
                return Error.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}"
    return None


def _is_pattern(text: str) -> bool:
    """Whether a text is what clients are matched by, and an expression."""
    name, *expressions = [part.strip() for part in text.split("=")]
    if name not in MATCHED or len(expressions) != 1:
        return False
    try:
        re.compile(expressions[0])
    except re.error:
        return False
    return True
