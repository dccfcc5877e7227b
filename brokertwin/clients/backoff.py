"""Backoff between retries: exponential with jitter, or constant.

Source: `ExponentialBackoff` and `CommonClientConfigs` in Kafka (KIP-580); the constant one is from
seed 001. `unit` is a random number in [0, 1) from the caller's generator.

Kafka computes a fractional exponent and may lose a millisecond at the limit. Here the value is
exactly `max_ms` once the curve reaches it.
"""

import math

import msgspec

BASE = 2
"""Growth of the backoff for each failure (`RETRY_BACKOFF_EXP_BASE`)."""

JITTER = 0.2
"""Relative jitter in both directions (`RETRY_BACKOFF_JITTER`)."""


class ExponentialBackoff(msgspec.Struct, frozen=True):
    """Backoff in ms, from `initial_ms` by `base` for each failure to `max_ms`.

    The backoff is constant and has no jitter if `max_ms` is at most `initial_ms`. Raises ValueError
    for a negative backoff, a base of at most 1, or a jitter outside [0, 1).
    """

    initial_ms: int
    base: float
    max_ms: int
    jitter: float

    def __post_init__(self) -> None:
        if self.initial_ms < 0 or self.max_ms < 0:
            raise ValueError("a backoff must not be negative")
        if self.base <= 1:
            raise ValueError("the base must be greater than 1")
        if not 0 <= self.jitter < 1:
            raise ValueError("the jitter must be in [0, 1)")

    def backoff(self, attempts: int, unit: float) -> int:
        """Return the backoff in ms after `attempts` earlier failures.

        `unit` in [0, 1) selects the jitter; 0.5 is none. Raises ValueError for negative attempts.
        """
        if attempts < 0:
            raise ValueError("attempts must not be negative")
        if self.max_ms <= self.initial_ms:
            return self.max_ms
        if self.initial_ms == 0:
            return 0
        factor = 1 - self.jitter + 2 * self.jitter * unit
        return min(int(self._term(attempts) * factor), self.max_ms)

    def _term(self, attempts: int) -> float:
        """The backoff without jitter; many attempts do not overflow."""
        if attempts >= math.log(self.max_ms / self.initial_ms, self.base):
            return self.max_ms
        return self.initial_ms * self.base**attempts


def retry_backoff(initial_ms: int = 100, max_ms: int = 1000) -> ExponentialBackoff:
    """Kafka's backoff for retries and connections: base 2, jitter 0.2."""
    return ExponentialBackoff(initial_ms, BASE, max_ms, JITTER)


def constant_backoff(pause_ms: int = 100) -> ExponentialBackoff:
    """A constant backoff, as in Kafka before KIP-580 (seed 001)."""
    return ExponentialBackoff(pause_ms, BASE, pause_ms, JITTER)
