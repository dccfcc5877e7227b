"""The order in which brokers of a simulated cluster hear of each other."""

from random import Random

from brokerstream.simulation.cluster import Draws


def test_what_was_drawn_comes_again_until_it_is_forgotten() -> None:
    draws, same = Draws(Random(1)), Random(1)
    drawn = [draws(1_000) for _ in range(5)]
    assert drawn == [same.randrange(1_000) for _ in range(5)]
    draws.again()
    assert [draws(1_000) for _ in range(5)] == drawn
    draws.forget()
    assert draws(1_000) == same.randrange(1_000)
