"""Settings of client metrics subscriptions (KIP-714).

A subscription has a name. Clients request matching subscriptions with GetTelemetrySubscriptions,
which ApiVersions only has if a plugin receives the metrics. There is none here, but such requests
get responses (`state/cluster/client_instances.py`).

Patterns are accepted if Python can parse them (not Java), and matched by RE2 if possible.

Source: `ClientMetricsConfigs`, `ClientMetricsManager.SubscriptionInfo` in Kafka; responses of
4.3.1.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.state.configs.config_keys import INT, LIST, ConfigKey, InvalidConfigError, parse
from brokertwin.state.core.java_hashes import hash_order

INTERVAL = "interval.ms"
MATCH = "match"
METRICS = "metrics"
LEAST_MS, MOST_MS, DEFAULT_MS = 100, 3_600_000, 300_000
PATTERNS_MAX = 256
"""Cached compiled patterns."""

CLIENT_METRICS_CONFIGS: dict[str, ConfigKey] = {
    METRICS: ConfigKey(LIST, ""),
    INTERVAL: ConfigKey(INT, str(DEFAULT_MS)),
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
"""Client attributes that patterns can match."""


class MetricsSubscription(NamedTuple):
    """Metrics and interval for clients whose attributes match all patterns."""

    metrics: list[str]
    interval_ms: int
    patterns: dict[str, str]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        return all(
            name in attributes and _matcher(pattern)(attributes[name])
            for name, pattern in self.patterns.items()
        )


@lru_cache(maxsize=PATTERNS_MAX)
def _matcher(pattern: str) -> Callable[[str], object]:
    """A full-text matcher for a pattern; the text is chosen by a client.

    RE2 runs in linear time. Patterns of Java that it lacks (look-ahead, backreferences) are matched
    by Python.
    """
    # imported when the first subscription needs it
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        matches: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    except re2.error:
        matches = re.compile(pattern).fullmatch
    return matches


def subscription(configs: Mapping[str, str]) -> MetricsSubscription:
    metrics, interval_ms, match = (
        parse(name, key, configs.get(name, key.default or ""))
        for name, key in CLIENT_METRICS_CONFIGS.items()
    )
    assert isinstance(metrics, list) and isinstance(interval_ms, int) and isinstance(match, list)
    patterns = dict(filter(None, map(_pattern, match)))
    return MetricsSubscription(metrics, interval_ms, patterns)


def fault(configs: Mapping[str, str]) -> tuple[Error, str] | None:
    """Kafka's error for a subscription's settings, or None."""
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
            if _pattern(pattern) is None:
                return Error.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}"
    return None


def _pattern(text: str) -> tuple[str, str] | None:
    """Attribute and pattern of a text, or None if it is not such a pair."""
    parts = text.rstrip("=").split("=")  # Java's split drops empty parts at the end
    if len(parts) != 2 or parts[0].strip() not in MATCHED:
        return None
    name, expression = (part.strip() for part in parts)
    try:
        re.compile(expression)
    except re.error:
        return None
    return name, expression
