"""Assignments of classic groups whose partition of `__consumer_offsets` has followers.

A real broker of 4.3.1 was asked the same: its group is in CompletingRebalance until followers have
the assignment, and in PreparingRebalance when they have not taken it in time.
"""

from typing import Any

import pytest

from brokertwin.state.core.errors import Error
from tests.support.coordinators import GROUPS, Coordinators
from tests.support.replicas import BROKERS

TIMEOUT_MS = 5000


class Members:
    """The members `a`, who leads, and `b` of the group `g`, in generation 1."""

    def __init__(self) -> None:
        self.brokers = Coordinators()
        self.coordinator = self.brokers.coordinator(GROUPS)
        self.ids = [self._id() for _ in range(2)]
        self.joins = [self._join(each) for each in self.ids]
        for _ in range(2):
            self.brokers.bench.tick(3000)
        assert [self.generation(each) for each in self.joins] == [1, 1]

    def _id(self) -> str:
        return str(self.answer(self._join(""))["memberId"])

    def _join(self, member: str, metadata: str = "AAAA") -> str | None:
        body = {
            "groupId": "g",
            "sessionTimeoutMs": 45_000,
            "rebalanceTimeoutMs": 60_000,
            "memberId": member,
            "groupInstanceId": None,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": metadata}],
        }
        return self.brokers.ask("JOIN_GROUP", 5, body, self.coordinator)

    def join(self) -> list[str | None]:
        """Both join again, with other subscriptions."""
        return [self._join(each, "BBBB") for each in self.ids]

    def answer(self, event_id: str | None) -> Any:
        """The answer, None while there is none."""
        return self.brokers.answer(event_id)

    def generation(self, event_id: str | None) -> int:
        """The generation in the answer to a join."""
        return int(self.answer(event_id)["generationId"])

    def sync(self, number: int, generation: int = 1) -> str | None:
        """A member syncs; the first one has assignments."""
        given = [] if number else [{"memberId": each, "assignment": "QUFB"} for each in self.ids]
        body = {"groupId": "g", "generationId": generation, "memberId": self.ids[number]}
        body |= {"assignments": given, "groupInstanceId": None}
        return self.brokers.ask("SYNC_GROUP", 3, body, self.coordinator)

    def told(self, event_id: str | None) -> tuple[int, str] | None:
        """Error and assignment of a sync, None while there is none."""
        response = self.answer(event_id)
        return (response["errorCode"], response["assignment"]) if response is not None else None

    def state(self) -> str:
        """The group's state."""
        body = {"groups": ["g"]}
        asked = self.brokers.ask("DESCRIBE_GROUPS", 5, body, self.coordinator)
        return str(self.answer(asked)["groups"][0]["groupState"])

    def cut_off(self) -> list[int]:
        """The followers are isolated."""
        others = [each for each in BROKERS if each != self.coordinator]
        self.brokers.replicas.isolate(*others)
        return others


@pytest.fixture
def members() -> Members:
    return Members()


def test_an_assignment_is_told_when_followers_have_it(members: Members) -> None:
    others = members.cut_off()
    syncs = [members.sync(0), members.sync(1)]
    assert members.state() == "CompletingRebalance"
    assert [members.told(each) for each in syncs] == [None, None]
    members.brokers.replicas.rejoin(*others)
    assert [members.told(each) for each in syncs] == [(0, "QUFB"), (0, "QUFB")]
    assert members.state() == "Stable"


def test_where_they_do_not_take_it_in_time_all_join_again(members: Members) -> None:
    others = members.cut_off()
    syncs = [members.sync(1), members.sync(0)]
    members.brokers.bench.tick(TIMEOUT_MS)
    unavailable = (Error.COORDINATOR_NOT_AVAILABLE, "")
    assert [members.told(each) for each in syncs] == [unavailable, unavailable]
    assert members.state() == "PreparingRebalance"
    assert members.told(members.sync(0)) == (Error.REBALANCE_IN_PROGRESS, "")
    members.brokers.replicas.rejoin(*others)
    assert members.state() == "PreparingRebalance"
    assert [members.generation(each) for each in members.join()] == [2, 2]
    assert members.told(members.sync(0, 2)) == (0, "QUFB")


def test_a_join_meanwhile_takes_the_assignment_away(members: Members) -> None:
    others = members.cut_off()
    sync = members.sync(0)
    members.join()
    assert members.told(sync) == (Error.REBALANCE_IN_PROGRESS, "")
    assert members.told(members.sync(1, 2)) is None
    members.brokers.replicas.rejoin(*others)
    assert members.state() == "CompletingRebalance", "the assignment is of the generation before"
