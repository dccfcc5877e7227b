"""Settings of client metrics: what clients are asked to tell of themselves, and which clients.

A subscription has a name. Kafka's clients ask for those that match them with
GetTelemetrySubscriptions, which a broker names only where a plugin takes what they push; there is
none here, and who asks all the same is answered (`state/cluster/client_instances.py`). KIP-714.

An expression that clients are matched with is taken where Python reads it, not Java, and matched
by RE2 where that knows it.

Source: `ClientMetricsConfigs`, `ClientMetricsManager.SubscriptionInfo` in Kafka; answers of 4.3.1.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from brokertwin.state.configs.config_keys import INT, LIST, ConfigKey, InvalidConfigError, parse
from brokertwin.state.core.errors import Error
from brokertwin.state.core.java_hashes import hash_order

INTERVAL = "interval.ms"
MATCH = "match"
METRICS = "metrics"
LEAST_MS, MOST_MS, DEFAULT_MS = 100, 3_600_000, 300_000
PATTERNS_MAX = 256
"""Compiled patterns that are kept."""

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
"""What an expression may be about."""


class MetricsSubscription(NamedTuple):
    """What is wanted of the clients whose attributes match all patterns, and how often."""

    metrics: list[str]
    interval_ms: int
    patterns: dict[str, str]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether a client is meant, by what is known of it."""
        return all(
            name in attributes and _matcher(pattern)(attributes[name])
            for name, pattern in self.patterns.items()
        )


@lru_cache(maxsize=PATTERNS_MAX)
def _matcher(pattern: str) -> Callable[[str], object]:
    """What matches a whole text, which a client has chosen.

    RE2 takes no longer for a longer text than is in proportion. What it does not know of Java's
    patterns (what is looked ahead at, what is repeated) Python's do.
    """
    # not before a subscription needs it
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    try:
        matches: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    except re2.error:
        matches = re.compile(pattern).fullmatch
    return matches


def subscription(configs: Mapping[str, str]) -> MetricsSubscription:
    """What settings mean that `fault` has nothing against."""
    metrics, interval_ms, match = (
        parse(name, key, configs.get(name, key.default or ""))
        for name, key in CLIENT_METRICS_CONFIGS.items()
    )
    assert isinstance(metrics, list) and isinstance(interval_ms, int) and isinstance(match, list)
    patterns = dict(filter(None, map(_pattern, match)))
    return MetricsSubscription(metrics, interval_ms, patterns)


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
            if _pattern(pattern) is None:
                return Error.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}"
    return None


def _pattern(text: str) -> tuple[str, str] | None:
    """What clients are matched by, and the expression; None where a text is no such pair."""
    parts = text.rstrip("=").split("=")  # Java's split drops what is empty at the end
    if len(parts) != 2 or parts[0].strip() not in MATCHED:
        return None
    name, expression = (part.strip() for part in parts)
    try:
        re.compile(expression)
    except re.error:
        return None
    return name, expression
