"""The pause before a repeat: grows, is drawn, is capped (KIP-580); once it was constant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.clients.backoff import ExponentialBackoff, constant_backoff, retry_backoff

MIDDLE = 0.5
"""The unit that gives no jitter."""

ALMOST_ONE = 0.999


def test_without_jitter_backoff_doubles_up_to_the_maximum() -> None:
    pauses = [retry_backoff().backoff(attempts, MIDDLE) for attempts in range(6)]
    assert pauses == [100, 200, 400, 800, 1000, 1000]


@pytest.mark.parametrize(
    ("attempts", "least", "most"),
    [(0, 80, 119), (1, 160, 239), (2, 320, 479), (3, 640, 959), (4, 800, 1000)],
)
def test_jitter_is_a_fifth_and_comes_before_the_cap(attempts: int, least: int, most: int) -> None:
    assert retry_backoff().backoff(attempts, 0.0) == least
    assert retry_backoff().backoff(attempts, ALMOST_ONE) == most


def test_example_18_zero_jitter_and_a_maximum_below_the_initial_backoff() -> None:
    plain = ExponentialBackoff(100, 2, 400, 0)
    assert [plain.backoff(attempts, 0.9) for attempts in range(4)] == [100, 200, 400, 400]
    capped = ExponentialBackoff(2000, 2, 1000, 0.2)
    assert [capped.backoff(attempts, 0.0) for attempts in (0, 1, 100)] == [1000, 1000, 1000]


def test_the_seeds_constant_backoff() -> None:
    assert {constant_backoff().backoff(attempts, 0.0) for attempts in range(20)} == {100}


def test_zero_initial_backoff_means_no_backoff() -> None:
    assert ExponentialBackoff(0, 2, 1000, 0.2).backoff(7, MIDDLE) == 0


@given(
    st.integers(0, 10_000),
    st.integers(0, 100_000),
    st.integers(0, 10**9),
    st.floats(0, 1, exclude_max=True),
)
def test_backoff_stays_between_its_bounds(
    initial: int, greatest: int, attempts: int, unit: float
) -> None:
    pause = retry_backoff(initial, greatest).backoff(attempts, unit)
    assert min(initial, greatest) * 0.8 - 1 <= pause <= greatest


@pytest.mark.parametrize("bad", [(-1, 2, 5, 0.2), (1, 1, 5, 0.2), (1, 2, 5, 1.0), (1, 2, -5, 0)])
def test_invalid_bounds_are_rejected(bad: tuple[int, float, int, float]) -> None:
    with pytest.raises(ValueError, match=r"backoff|base|jitter"):
        ExponentialBackoff(*bad)


def test_attempts_are_counted_from_0() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        retry_backoff().backoff(-1, MIDDLE)
