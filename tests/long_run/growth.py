"""Whether a series of measurements is flat: pure arithmetic over samples."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

WARM_UP = 0.25
"""The part of a run that is not looked at: caches fill, the JVM compiles."""

FLAT = 0.1
"""How much of its middle value a series may gain in the rest of the run."""


class Growth(NamedTuple):
    """Trend of a series after the warm-up.

    Attributes:
        least: the smallest value.
        gained: how much it went up from the warm-up's end to the run's, by its trend.
        per_hour: the same in an hour.
    """

    name: str
    middle: float
    least: float
    most: float
    gained: float
    per_hour: float

    @property
    def is_flat(self) -> bool:
        """Whether it stays within a tenth of its middle value."""
        return self.gained <= FLAT * abs(self.middle)


def growth_of(name: str, times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """The trend of a series: Theil and Sen's, which single peaks do not change.

    `times_s`: seconds since the run's beginning, growing.

    Raises:
        ValueError: after the warm-up there are not two samples.
    """
    begins = times_s[0] + WARM_UP * (times_s[-1] - times_s[0]) if times_s else 0
    kept = [(at, value) for at, value in zip(times_s, values, strict=True) if at >= begins]
    if len(kept) < 2:
        raise ValueError(f"{name} has {len(kept)} samples after the warm-up")
    at, found = zip(*_thinned(kept), strict=True)
    slope = statistics.median(
        (found[j] - found[i]) / (at[j] - at[i])
        for i in range(len(at))
        for j in range(i + 1, len(at))
    )
    every = [value for _, value in kept]
    return Growth(
        name,
        statistics.median(every),
        min(every),
        max(every),
        slope * (at[-1] - at[0]),
        slope * 3600,
    )


def _thinned(kept: list[tuple[float, float]], most: int = 400) -> list[tuple[float, float]]:
    """Return at most `most` samples, spread over the run."""
    step = -(-len(kept) // most)
    return kept[::step] if step > 1 else kept
