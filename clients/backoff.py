"""Back-off between repeats of a request: exponential with jitter, or constant.

Source: `ExponentialBackoff` and `CommonClientConfigs` in Kafka (KIP-580); seed 001 has the constant
one. The caller brings the chance: `unit` is a number in [0, 1) from its own generator.

Where Kafka raises the base to a fractional exponent and so may lose a millisecond, the value here
is `max_ms` itself once the exponential curve has reached it.
"""

import math

import msgspec

BASE = 2
"""What a further failure multiplies the pause by (`RETRY_BACKOFF_EXP_BASE`)."""

JITTER = 0.2
"""The share of the pause by which it is drawn shorter or longer (`RETRY_BACKOFF_JITTER`)."""


class ExponentialBackoff(msgspec.Struct, frozen=True):
    """Pauses in ms that grow from `initial_ms` by `base` for each failure up to `max_ms`.

    Where `max_ms` is not above `initial_ms` the pause is constant and has no jitter. Raises
    ValueError for a negative pause, a base of 1 or less, or a jitter outside [0, 1).
    """

    initial_ms: int
    base: float
    max_ms: int
    jitter: float

    def __post_init__(self) -> None:
        if self.initial_ms < 0 or self.max_ms < 0:
            raise ValueError("a pause is not negative")
        if self.base <= 1:
            raise ValueError("the base is greater than 1")
        if not 0 <= self.jitter < 1:
            raise ValueError("the jitter lies in [0, 1)")

    def backoff(self, attempts: int, unit: float) -> int:
        """The pause in ms after `attempts` earlier failures, counted from 0.

        `unit` in [0, 1) chooses the jitter; 0.5 is none. Raises ValueError for negative attempts.
        """
        if attempts < 0:
            raise ValueError("attempts are counted from 0")
        if self.max_ms <= self.initial_ms:
            return self.max_ms
        if self.initial_ms == 0:
            return 0
        factor = 1 - self.jitter + 2 * self.jitter * unit
        return min(int(self._term(attempts) * factor), self.max_ms)

    def _term(self, attempts: int) -> float:
        """The pause without jitter; large numbers of attempts do not overflow."""
        if attempts >= math.log(self.max_ms / self.initial_ms, self.base):
            return self.max_ms
        return self.initial_ms * self.base**attempts


def retry_backoff(initial_ms: int = 100, max_ms: int = 1000) -> ExponentialBackoff:
    """Kafka's back-off for retries and for connections: base 2, jitter 0.2."""
    return ExponentialBackoff(initial_ms, BASE, max_ms, JITTER)


def constant_backoff(pause_ms: int = 100) -> ExponentialBackoff:
    """The same pause each time, as Kafka had it before KIP-580 (seed 001)."""
    return ExponentialBackoff(pause_ms, BASE, pause_ms, JITTER)
