"""Assignments of classic groups whose partition of `__consumer_offsets` has followers.

As in Kafka 4.3.1, the group is in CompletingRebalance until followers have the assignment, and in
PreparingRebalance if they do not copy it in time.
"""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.coordinators import GROUPS, Coordinators
from tests.support.replicas import BROKERS

TIMEOUT_MS = 5000


class Members:
    """The leader `a` and the member `b` of the group `g`, in generation 1."""

    def __init__(self) -> None:
        self.brokers = Coordinators()
        self.coordinator = self.brokers.coordinator(GROUPS)
        self.ids = [str(self.response(self._join(""))["memberId"]) for _ in range(2)]
        self.joins = [self._join(each) for each in self.ids]
        for _ in range(2):
            self.brokers.bench.tick(3000)
        assert [self.generation(each) for each in self.joins] == [1, 1]

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
        return self.brokers.send("JOIN_GROUP", 5, body, self.coordinator)

    def join(self) -> list[str | None]:
        return [self._join(each, "BBBB") for each in self.ids]

    def response(self, event_id: str | None) -> Any:
        """The response, or None while it is pending."""
        return self.brokers.response(event_id)

    def generation(self, event_id: str | None) -> int:
        return int(self.response(event_id)["generationId"])

    def sync(self, number: int, generation: int = 1) -> str | None:
        """SyncGroup of a member; the first one sends assignments."""
        given = [] if number else [{"memberId": each, "assignment": "QUFB"} for each in self.ids]
        body = {"groupId": "g", "generationId": generation, "memberId": self.ids[number]}
        body |= {"assignments": given, "groupInstanceId": None}
        return self.brokers.send("SYNC_GROUP", 3, body, self.coordinator)

    def synced(self, event_id: str | None) -> tuple[int, str] | None:
        """Error and assignment of a sync, or None while it is pending."""
        response = self.response(event_id)
        return (response["errorCode"], response["assignment"]) if response is not None else None

    def state(self) -> str:
        body = {"groups": ["g"]}
        event_id = self.brokers.send("DESCRIBE_GROUPS", 5, body, self.coordinator)
        return str(self.response(event_id)["groups"][0]["groupState"])

    def cut_off(self) -> list[int]:
        others = [each for each in BROKERS if each != self.coordinator]
        self.brokers.replicas.isolate(*others)
        return others


@pytest.fixture
def members() -> Members:
    return Members()


def test_assignment_is_sent_once_followers_have_it(members: Members) -> None:
    others = members.cut_off()
    syncs = [members.sync(0), members.sync(1)]
    assert members.state() == "CompletingRebalance"
    assert [members.synced(each) for each in syncs] == [None, None]
    members.brokers.replicas.rejoin(*others)
    assert [members.synced(each) for each in syncs] == [(0, "QUFB"), (0, "QUFB")]
    assert members.state() == "Stable"


def test_members_rejoin_if_followers_do_not_copy_the_assignment_in_time(members: Members) -> None:
    others = members.cut_off()
    syncs = [members.sync(1), members.sync(0)]
    members.brokers.bench.tick(TIMEOUT_MS)
    unavailable = (Error.COORDINATOR_NOT_AVAILABLE, "")
    assert [members.synced(each) for each in syncs] == [unavailable, unavailable]
    assert members.state() == "PreparingRebalance"
    assert members.synced(members.sync(0)) == (Error.REBALANCE_IN_PROGRESS, "")
    members.brokers.replicas.rejoin(*others)
    assert members.state() == "PreparingRebalance"
    assert [members.generation(each) for each in members.join()] == [2, 2]
    assert members.synced(members.sync(0, 2)) == (0, "QUFB")


def test_join_meanwhile_cancels_the_assignment(members: Members) -> None:
    others = members.cut_off()
    sync = members.sync(0)
    members.join()
    assert members.synced(sync) == (Error.REBALANCE_IN_PROGRESS, "")
    assert members.synced(members.sync(1, 2)) is None
    members.brokers.replicas.rejoin(*others)
    assert members.state() == "CompletingRebalance", "the assignment is of the former generation"
