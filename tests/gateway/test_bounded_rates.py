"""How fast clients may be at the edge: counted as a broker counts, and forgotten."""

from brokertwin.gateway.bounded_rates import BoundedRates, RateLimit
from brokertwin.state.cluster.quota_rates import QuotaWindows

LIMIT = RateLimit(2.0, QuotaWindows(11, 1000))
ALLOWED = 20
"""Two a second over ten windows, which is the least that a rate is taken over."""


def test_one_too_many_is_held_until_the_rate_is_as_it_may_be_and_does_not_count() -> None:
    rates = BoundedRates()
    came = [rates.held_ms(1, "10.0.0.7", LIMIT, 5_000) for _ in range(ALLOWED + 2)]
    assert came == [0] * ALLOWED + [500, 500]
    assert rates.held_ms(1, "10.0.0.8", LIMIT, 5_000) == 0
    assert rates.held_ms(2, "10.0.0.7", LIMIT, 5_000) == 0, "each broker counts by itself"
    assert rates.held_ms(1, "10.0.0.7", LIMIT, 5_000 + 10_500) == 0


def test_nobody_is_held_for_longer_than_a_window() -> None:
    rates, limit = BoundedRates(), RateLimit(0.1, LIMIT.windows)
    assert rates.held_ms(1, "10.0.0.7", limit, 0) == 0
    assert rates.held_ms(1, "10.0.0.7", limit, 0) == LIMIT.windows.size_ms
    nobody = RateLimit(0, LIMIT.windows)
    assert rates.held_ms(1, "10.0.0.9", nobody, 0) == LIMIT.windows.size_ms


def test_who_has_not_come_for_all_windows_is_forgotten() -> None:
    rates = BoundedRates()
    for last in range(100):
        rates.held_ms(1, f"10.0.0.{last}", LIMIT, last)
    rates.held_ms(1, "10.0.0.0", LIMIT, 100)
    assert len(rates) == 100
    rates.held_ms(1, "10.0.1.1", LIMIT, 50 + LIMIT.windows.age_ms)
    assert len(rates) == 1 + 50, "those who came after that are still there"
