"""Fetches and acknowledgements of members of a share group on the bench."""

from typing import Any

from brokertwin.state.cell import check
from tests.support.machine import CLUSTER, header
from tests.support.share_groups import GROUP, ShareBench


class Shared(ShareBench):
    """Partition 0 of `foo`, whose state has begun, with three records; who fetches from it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.beat("z", 0, "foo")
        self.epochs: dict[str, int] = {}
        self.fetch("z")
        self.append("foo", header(3))

    def share(self, member: str, epoch: int, wait_ms: int = 0, *said: Any, **fields: Any) -> Any:
        """The answer to a ShareFetch, None while it waits; `said` are acknowledgements.

        Each member has a connection of its name, unless `connection` has another one.
        """
        connection = fields.pop("connection", member)
        place = {"partitionIndex": 0, "acknowledgementBatches": list(said)}
        body = {
            "groupId": GROUP,
            "memberId": member,
            "shareSessionEpoch": epoch,
            "maxWaitMs": wait_ms,
            "minBytes": 1,
            "maxRecords": 500,
            "batchSize": 500,
            "topics": [{"topicId": self.ids["foo"], "partitions": [place]}],
            "forgottenTopicsData": [],
        }
        answer = self.request("SHARE_FETCH", 2, {**body, **fields}, connection=connection)
        assert check.check(self.cell) == []
        return answer

    def fetch(self, member: str, wait_ms: int = 0, *said: Any) -> Any:
        """Fetch in the member's session: return the acquired records, or the error."""
        epoch = self.epochs.get(member, 0)
        self.epochs[member] = epoch + 1
        return got(self.share(member, epoch, wait_ms, *said))

    def say(self, member: str, *said: Any) -> int:
        """Return the response to a member's acknowledgements."""
        place = {"partitionIndex": 0, "acknowledgementBatches": list(said)}
        body = {"groupId": GROUP, "memberId": member, "shareSessionEpoch": self.epochs[member]}
        body["topics"] = [{"topicId": self.ids["foo"], "partitions": [place]}]
        self.epochs[member] += 1
        answer = self.request("SHARE_ACKNOWLEDGE", 2, body)
        assert check.check(self.cell) == []
        code: int = answer["responses"][0]["partitions"][0]["errorCode"]
        return code

    def lose(self, connection: str) -> list[str]:
        """A connection ends; the dead letters that this gives."""
        self.handle(
            {"id": "gone", "cluster": CLUSTER, "kind": "disconnect", "connection": connection}
            | {"time": self.now}
        )
        assert check.check(self.cell) == []
        return self.dead_letters(self.last)


def got(answer: Any) -> Any:
    """Return the acquired ranges as first and last offset and delivery count; or the error."""
    if answer is None or answer["errorCode"]:
        return answer and answer["errorCode"]
    return [
        (each["firstOffset"], each["lastOffset"], each["deliveryCount"])
        for topic in answer["responses"]
        for partition in topic["partitions"]
        for each in partition["acquiredRecords"]
    ]


def batch(first: int, last: int, *types: int) -> dict[str, Any]:
    """Acknowledgements, both offsets inclusive."""
    return {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": list(types)}


def answered(bench: Shared) -> list[Any]:
    """The answers to ShareFetches."""
    return [each for each in bench.answers.values() if each["requestHeader"]["requestApiKey"] == 78]
