"""Holes: what shows that lines of a broker's log are missing, and what does not."""

import random
from collections.abc import Iterable

import pytest

from brokertwin.recordings.history import holes
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.holes import (
    RUNS_MAX,
    SEQUENCES_MAX,
    Hole,
    HoleFinder,
    Numbered,
    sentences,
)

FETCHER = "broker-2-fetcher-0"
T = 1_800_000_000_000


def exchange(
    api: str, at: int, body: dict[str, object], client: str = "c", code: int = 0, broker: int = 1
) -> RecordedExchange:
    line = RecordedRequest("x:1", T + at, T + at, broker, client, "", "c", api, 17)
    return RecordedExchange(line, body, {"errorCode": code})


def fetch(
    epoch: int, at: int, session: int = 7, follower: int = 2, code: int = 0
) -> RecordedExchange:
    """A fetch at broker 1; `at` is in ms."""
    body = {"replicaId": follower, "sessionId": session, "sessionEpoch": epoch}
    return exchange("FETCH", at, body, FETCHER if follower >= 0 else "c", code)


def fetches(epochs: Iterable[int], session: int = 7, follower: int = 2) -> list[RecordedExchange]:
    """One each 500 ms, at a time that its epoch gives."""
    return [fetch(each, 500 * each, session, follower) for each in epochs]


def holes_of(exchanges: Iterable[RecordedExchange]) -> list[tuple[int, int]]:
    found = HoleFinder.of((each, 0) for each in exchanges).holes()
    return [(each.begin - T, each.end - T) for each in found]


@pytest.mark.parametrize("follower", [2, -1], ids=["follower", "consumer"])
@pytest.mark.parametrize("seed", range(3))
def test_a_jump_of_a_sessions_epochs_is_a_hole_in_any_order(follower: int, seed: int) -> None:
    shown = 2 * fetches([*range(5, 20), *range(30, 40)], follower=follower)
    random.Random(seed).shuffle(shown)
    assert holes_of(shown) == [(9_500, 15_000)]


@pytest.mark.parametrize("seed", range(20))
def test_numbers_in_any_order_are_joined_to_runs(seed: int) -> None:
    numbers = [*range(1, 8), *range(11, 14), *range(20, 24)]
    random.Random(seed).shuffle(numbers)
    runs: list[holes._Run] = []
    for number in numbers:
        holes._add(runs, number, number)
    assert [(each.first, each.last) for each in runs] == [(1, 7), (11, 13), (20, 23)]
    assert [(each.begin, each.end) for each in runs] == [(1, 7), (11, 13), (20, 23)]


def test_two_missing_epochs_are_no_hole() -> None:
    assert holes_of(fetches([*range(1, 15), *range(17, 40)])) == []
    assert holes_of(fetches([*range(1, 15), *range(21, 40)])) == [(7_000, 10_500)]


def test_a_hole_is_the_silence_in_a_jump() -> None:
    shown = [*fetches([*range(1, 20), *range(40, 60)]), exchange("PRODUCE", 9_600, {})]
    assert holes_of(shown) == [(9_600, 20_000)]


@pytest.mark.parametrize("seed", range(3))
def test_a_sampled_log_is_no_hole_but_for_some_seconds(seed: int) -> None:
    """Findings of it are incomplete, but what its responses show is still said."""
    chance = random.Random(seed)
    every = [*fetches(range(1, 400)), *(exchange("PRODUCE", 70 * n, {}) for n in range(1, 3_000))]
    found = holes_of(each for each in every if chance.random() < 0.2)
    assert sum(end - begin for begin, end in found) < 4_000


def test_a_refused_fetch_proves_nothing() -> None:
    """A broker refuses an epoch that is not the next one (INVALID_FETCH_SESSION_EPOCH)."""
    assert holes_of([fetch(1, 500), fetch(9, 1_000, code=71), fetch(2, 1_500)]) == []


def test_a_fetchers_session_that_began_in_a_hole_shows_it() -> None:
    first, second = fetches(range(1, 20)), fetches(range(40, 60), session=8)
    assert holes_of([*first, *second]) == [(9_500, 20_000)]
    later = [fetch(each, 20_000 + 500 * each, session=8) for each in range(1, 20)]
    assert holes_of([*first, *later]) == [], "an opened session, as after a restart"


def test_a_consumers_new_session_shows_no_hole() -> None:
    """Another consumer may have the same client id."""
    first, second = fetches(range(1, 20), follower=-1), fetches(range(40, 60), 8, follower=-1)
    assert holes_of([*first, *second]) == []


def heartbeats(
    times: Iterable[int], *, is_leaving: bool = False
) -> list[tuple[RecordedExchange, int]]:
    """Heartbeats of broker 1 at broker 3, with correlation ids."""
    body = {"brokerId": 1, "wantShutDown": is_leaving}
    return [(exchange("BROKER_HEARTBEAT", at, body, "1", broker=3), at // 2_000) for at in times]


def test_missing_heartbeats_are_a_hole_of_the_controllers_log() -> None:
    shown = heartbeats([*range(2_000, 40_000, 2_000), *range(80_000, 120_000, 2_000)])
    assert HoleFinder.of(shown).holes() == [Hole(T + 38_000, T + 80_000, 3)]


@pytest.mark.parametrize(
    ("others", "is_hole"),
    [
        (heartbeats(range(0, 60_000, 2_000)), True),
        (heartbeats(range(0, 60_000, 2_000), is_leaving=True), False),
        (heartbeats(range(0, 20_000, 2_000)), False),
        ([], False),
    ],
    ids=["heartbeats go on", "it shuts down", "it stops", "nothing is known of it"],
)
def test_a_silent_broker_with_followers_and_heartbeats_has_a_hole(
    others: list[tuple[RecordedExchange, int]], *, is_hole: bool
) -> None:
    """The hole ends with a restart, so that no session goes on behind it."""
    before = fetches(range(2, 40))
    after = [fetch(each, 59_000 + 500 * each, session=8) for each in range(1, 20)]
    found = HoleFinder.of([*((each, 0) for each in (*before, *after)), *others]).holes()
    assert found == ([Hole(T + 19_500, T + 59_500, 1)] if is_hole else [])


def test_what_is_kept_is_bounded() -> None:
    finder = HoleFinder()
    for at in range(3 * RUNS_MAX):
        finder.note_line(1, T + 1_000 * at)
        finder.note(1, Numbered("sampled", 10 * at), T + 1_000 * at)
    for at in range(2 * SEQUENCES_MAX):
        finder.note(1, Numbered(str(at), 1), T)
        finder.note(1, Numbered(str(at), 2), T + 1)
    assert len(list(finder._jumps_so_far())) == 3 * RUNS_MAX - 1, "of forgotten ones, too"
    assert sum(map(len, finder._runs.values())) <= SEQUENCES_MAX


def test_a_jump_whose_lines_were_dropped_is_no_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "LINES_MAX", 30)
    assert holes_of(fetches([*range(1, 20), *range(40, 100)])) == []


def test_joined_holes_are_said_once() -> None:
    found = [Hole(T, T + 2_000, 2), Hole(T + 1_000, T + 3_000, 2), Hole(T, T + 1, 1)]
    one, two = sentences(found)
    assert one.startswith("The log of broker 1 lacks lines from 2027-01-15 08:00:00.000 to")
    assert two.startswith(
        "The log of broker 2 lacks lines from 2027-01-15 08:00:00.000 to 2027-01-15 08:00:03.000:"
    )


def test_a_hole_ends_what_is_recorded_and_covered() -> None:
    known = KnownFacts(logs={1: (0, 1_000)}, holes=[(300, 400), (600, 700)])
    assert [known.recorded_since(time) for time in (200, 350, 500, 900)] == [0, 400, 400, 700]
    assert [known.recorded_until(time) for time in (200, 350, 500, 900)] == [300, 300, 600, 1_000]
    assert [known.part_of(time) for time in (200, 300, 399, 400, 650, 700)] == [0, 0, -1, 1, -1, 2]
    assert [
        known.is_covered(1, *span) for span in ((0, 300), (0, 301), (400, 600), (399, 500))
    ] == [
        True,
        False,
        True,
        False,
    ]
