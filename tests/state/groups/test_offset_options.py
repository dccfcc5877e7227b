"""Options of the seed's time for OffsetCommit and OffsetFetch (seed 003)."""

from typing import Any

import pytest

from brokertwin.state.cluster.coordinators import GROUP_TOPIC
from tests.support.machine import Bench

MINUTE = 60_000


class Offsets(Bench):
    """One broker, topic `a`, group `g`, and no offsets topic at first."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(offsets_topic_num_partitions=1, **settings)
        self.topic("a")

    def commit(self, offset: int) -> int:
        topic = {"name": "a", "partitions": [{"partitionIndex": 0, "committedOffset": offset}]}
        body = {"groupId": "g", "memberId": "", "generationIdOrMemberEpoch": -1, "topics": [topic]}
        (response,) = self.request("OFFSET_COMMIT", 8, body)["topics"]
        return int(response["partitions"][0]["errorCode"])

    def fetch(self) -> dict[str, Any]:
        """The partition in the response of a fetch; {} if the group has an error."""
        request = {"groupId": "g", "topics": [{"name": "a", "partitionIndexes": [0]}]}
        (group,) = self.request("OFFSET_FETCH", 8, {"groups": [request]})["groups"]
        return dict(group["topics"][0]["partitions"][0]) if group["topics"] else {}

    @property
    def has_topic(self) -> bool:
        response = self.request("METADATA", 12, topics=None, allowAutoTopicCreation=False)
        return GROUP_TOPIC in {topic["name"] for topic in response["topics"]}


@pytest.mark.parametrize("missing_is_error", [False, True])
def test_the_first_fetch_creates_the_offsets_topic_and_returns_no_offset(
    missing_is_error: bool,
) -> None:
    bench = Offsets(
        brokertwin_create_offsets_topic=True, brokertwin_missing_offset_error=missing_is_error
    )
    found = bench.fetch()
    assert (found["committedOffset"], found["errorCode"]) == (-1, 0)
    assert bench.has_topic
    assert bench.fetch()["errorCode"] == (3 if missing_is_error else 0)


def test_the_first_commit_creates_the_offsets_topic_and_is_retried() -> None:
    bench = Offsets(brokertwin_create_offsets_topic=True)
    assert bench.commit(5) == 15
    assert bench.has_topic
    assert bench.commit(5) == 0
    assert bench.fetch()["committedOffset"] == 5


def test_without_the_option_neither_creates_the_topic() -> None:
    bench = Offsets()
    assert (bench.commit(5), bench.fetch(), bench.has_topic) == (16, {}, False)


@pytest.mark.parametrize("storage", ["kafka", "zookeeper"])
@pytest.mark.parametrize("counts_from_fetch", [False, True])
def test_a_fetch_restarts_the_age_of_an_offset(storage: str, counts_from_fetch: bool) -> None:
    bench = Offsets(
        brokertwin_create_offsets_topic=True,
        brokertwin_offset_age_from_fetch=counts_from_fetch,
        brokertwin_offset_storage=storage,
        offsets_retention_minutes=30,
    )
    bench.fetch()
    bench.commit(5)
    bench.commit(5)
    bench.tick(20 * MINUTE)
    assert bench.fetch()["committedOffset"] == 5
    bench.tick(20 * MINUTE)
    table_has_it = any(key.count("/offset/") for key in bench.cell.tables.groups.keys(""))
    assert table_has_it == counts_from_fetch
    bench.tick(40 * MINUTE)
    assert bench.fetch()["committedOffset"] == -1


@pytest.mark.parametrize("storage", ["kafka", "zookeeper"])
def test_a_fetch_shows_timestamps_if_the_option_is_on(storage: str) -> None:
    for is_on in (False, True):
        bench = Offsets(
            brokertwin_create_offsets_topic=True,
            brokertwin_offset_timestamps=is_on,
            brokertwin_offset_storage=storage,
        )
        bench.commit(5)
        bench.commit(5)
        committed_at = bench.now
        bench.tick(1_000)
        assert bench.fetch().get("commitTimestamp") == (committed_at if is_on else None)
