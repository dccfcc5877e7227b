"""A recording that is cut gives no finding that the whole one does not give.

Each file is cut at random lines, at its beginning, its end, or both. The limits are low here
because low limits give more findings.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.errors import UserError
from brokertwin.recordings.history import clients, lag, memberships, sessions
from brokertwin.recordings.history.exchange import KnownFacts
from brokertwin.recordings.history.findings import SessionClosed, SessionEvicted, Severity
from tests.support import audits
from tests.support.examples import examples

FILES = max(map(len, audits.RECORDINGS.values()))
SHARES = st.tuples(st.integers(0, 100), st.integers(0, 100))
SIDES: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "beginning": lambda first, _: (first, 100),
    "end": lambda _, last: (0, last),
    "both": lambda first, last: (first, last),
}
LEAST_DRAWN = {
    "rebalances": 10,
    "producer-fenced": 3,
    "sequence-gap": 2,
    "batch-repeated": 3,
    "commit-refused": 3,
    "member-refused": 3,
    "offset-back": 1,
    "instance-fenced": 1,
    "session-churn": 5,
    "lag-growing": 3,
    "isr-shrunk": 5,
    "leader-changed": 5,
    "under-min-isr": 3,
    "records-redelivered": 3,
    "refused": 50,
}
"""Minimum number of compared findings of cut recordings, by kind."""


@pytest.fixture(scope="module", autouse=True)
def _low_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lag, "GROWTH", 3)
        patch.setattr(clients, "MANY", 2)
        patch.setattr(memberships, "STORM", 2)
        audits.whole.cache_clear()
        yield
    audits.whole.cache_clear()


def accusations(
    name: str, side: str, shares: list[tuple[int, int]]
) -> tuple[list[str], Counter[str]]:
    """Findings of a cut recording beyond the whole one, and its number of findings by kind."""
    of_file = dict(zip(audits.RECORDINGS[name], shares, strict=False))

    def where(path: Path) -> tuple[float, float]:
        first, last = SIDES[side](*sorted(of_file[path]))
        return first / 100, last / 100

    with TemporaryDirectory() as directory:
        try:
            found = audits.cut(name, where, Path(directory)).findings
        except UserError:
            return [], Counter()  # nothing is left
    reported = [audits.stronger(each, audits.whole(name)) for each in found]
    kinds = Counter(each.kind for each in found)
    kinds += Counter(str(one["kind"]) for each in found for one in each.consequences)
    return [each for each in reported if each], kinds


@pytest.mark.long
def test_a_recording_that_is_cut_gives_no_false_verdict() -> None:
    drawn: Counter[str] = Counter()

    @settings(max_examples=examples(3), deadline=None)
    @given(
        st.sampled_from(sorted(SIDES)),
        st.lists(SHARES, min_size=FILES, max_size=FILES),
    )
    def hold(name: str, side: str, shares: list[tuple[int, int]]) -> None:
        false, kinds = accusations(name, side, shares)
        drawn.update(kinds)
        assert false == []

    for name in audits.RECORDINGS:
        hold(name)
    too_few = {kind: drawn[kind] for kind, least in LEAST_DRAWN.items() if drawn[kind] < least}
    assert too_few == {}


def sessions_that_no_client_closed_are_evicted(patch: pytest.MonkeyPatch) -> None:
    def lost(self: sessions.ObservedSessionCache, line: Any, number: int) -> Any:
        found = LOST(self, line, number)
        if any(isinstance(each, SessionClosed) for each in found.causes):
            return found
        evicted = (SessionEvicted(used=line, openers=("another",)),)
        return msgspec.structs.replace(found, severity=Severity.WARNING, causes=evicted)

    patch.setattr(sessions.ObservedSessionCache, "_lost", lost)


def members_that_are_seen_first_are_new(patch: pytest.MonkeyPatch) -> None:
    def take(self: memberships.Membership, exchange: Any, last: int) -> Any:
        if exchange.request.get("memberId") not in self.clients:
            self.handed_out.append(exchange.request.get("memberId"))
        return TAKE(self, exchange, last)

    patch.setattr(memberships.Membership, "take", take)


def all_logs_are_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownFacts, "recorded_since", lambda *_: 0.0)
    patch.setattr(KnownFacts, "recorded_until", lambda *_: math.inf)


LOST, TAKE = sessions.ObservedSessionCache._lost, memberships.Membership.take


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (sessions_that_no_client_closed_are_evicted, "raw_fetch_errors"),
        (members_that_are_seen_first_are_new, "classic_rebalance_range"),
        (all_logs_are_whole, "follower_stop"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_false_knowledge_is_noticed(
    broken: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    audits.whole.cache_clear()
    cuts = [
        (side, [shares, (0, 100), (0, 100), (0, 100)])
        for percent in range(1, 100, 3)
        for side, shares in (("beginning", (percent, 100)), ("end", (0, percent)))
    ]
    assert any(accusations(name, side, shares)[0] for side, shares in cuts)
    audits.whole.cache_clear()
