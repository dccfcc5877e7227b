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

    def share(self, member: str, epoch: int, wait_ms: int = 0, *given: Any, **fields: Any) -> Any:
        """The response to a ShareFetch, None while it waits; `given` are acknowledgements.

        Each member has a connection of its name, unless `connection` has another one.
        """
        connection = fields.pop("connection", member)
        place = {"partitionIndex": 0, "acknowledgementBatches": list(given)}
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
        response = self.request("SHARE_FETCH", 2, {**body, **fields}, connection=connection)
        assert check.check(self.cell) == []
        return response

    def fetch(self, member: str, wait_ms: int = 0, *given: Any) -> Any:
        """Fetch in the member's session: return the acquired records, or the error."""
        epoch = self.epochs.get(member, 0)
        self.epochs[member] = epoch + 1
        return got(self.share(member, epoch, wait_ms, *given))

    def acknowledge(self, member: str, *given: Any) -> int:
        """Return the response to a member's acknowledgements."""
        place = {"partitionIndex": 0, "acknowledgementBatches": list(given)}
        body = {"groupId": GROUP, "memberId": member, "shareSessionEpoch": self.epochs[member]}
        body["topics"] = [{"topicId": self.ids["foo"], "partitions": [place]}]
        self.epochs[member] += 1
        response = self.request("SHARE_ACKNOWLEDGE", 2, body)
        assert check.check(self.cell) == []
        code: int = response["responses"][0]["partitions"][0]["errorCode"]
        return code

    def lose(self, connection: str) -> list[str]:
        """A connection ends; the dead letters that this gives."""
        self.handle(
            {"id": "gone", "cluster": CLUSTER, "kind": "disconnect", "connection": connection}
            | {"time": self.now}
        )
        assert check.check(self.cell) == []
        return self.dead_letters(self.last)


def got(response: Any) -> Any:
    """Return the acquired ranges as first and last offset and delivery count; or the error."""
    if response is None or response["errorCode"]:
        return response and response["errorCode"]
    return [
        (each["firstOffset"], each["lastOffset"], each["deliveryCount"])
        for topic in response["responses"]
        for partition in topic["partitions"]
        for each in partition["acquiredRecords"]
    ]


def batch(first: int, last: int, *types: int) -> dict[str, Any]:
    return {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": list(types)}


def completed(bench: Shared) -> list[Any]:
    return [
        each for each in bench.responses.values() if each["requestHeader"]["requestApiKey"] == 78
    ]
