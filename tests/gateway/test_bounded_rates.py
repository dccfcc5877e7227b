"""Client quotas at the edge: rates like a broker's, and their expiry."""

from brokertwin.gateway.bounded_rates import BoundedRates, RateLimit
from brokertwin.state.cluster.quota_rates import QuotaWindows

LIMIT = RateLimit(2.0, QuotaWindows(11, 1000))
ALLOWED = 20
"""Two a second over ten windows, the least number over which a rate is measured."""


def test_excess_connection_waits_until_the_rate_is_allowed_and_is_not_counted() -> None:
    rates = BoundedRates()
    came = [rates.held_ms(1, "10.0.0.7", LIMIT, 5_000) for _ in range(ALLOWED + 2)]
    assert came == [0] * ALLOWED + [500, 500]
    assert rates.held_ms(1, "10.0.0.8", LIMIT, 5_000) == 0
    assert rates.held_ms(2, "10.0.0.7", LIMIT, 5_000) == 0, "each broker counts by itself"
    assert rates.held_ms(1, "10.0.0.7", LIMIT, 5_000 + 10_500) == 0


def test_wait_is_at_most_one_window() -> None:
    rates, limit = BoundedRates(), RateLimit(0.1, LIMIT.windows)
    assert rates.held_ms(1, "10.0.0.7", limit, 0) == 0
    assert rates.held_ms(1, "10.0.0.7", limit, 0) == LIMIT.windows.size_ms
    nobody = RateLimit(0, LIMIT.windows)
    assert rates.held_ms(1, "10.0.0.9", nobody, 0) == LIMIT.windows.size_ms


def test_idle_client_is_forgotten_after_all_windows() -> None:
    rates = BoundedRates()
    for last in range(100):
        rates.held_ms(1, f"10.0.0.{last}", LIMIT, last)
    rates.held_ms(1, "10.0.0.0", LIMIT, 100)
    assert len(rates) == 100
    rates.held_ms(1, "10.0.1.1", LIMIT, 50 + LIMIT.windows.age_ms)
    assert len(rates) == 1 + 50, "those who came after that are still there"
