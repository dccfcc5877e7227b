"""Exchanges of a share group made up, of a partition of a topic that is its own id."""

from typing import Any

from brokertwin.state.share.share_partition import ACCEPT
from tests.support.exchanges_told import GROUP, TOPIC, Told

__all__ = ["GROUP", "Shares"]


class Shares(Told):
    """A recording of share fetches; a client has the name of its member."""

    def give(self, member: str, *acquired: tuple[int, int, int], **when: int) -> None:
        """A ShareFetch that gets records: first, last, how many-th delivery."""
        got = [
            {"firstOffset": first, "lastOffset": last, "deliveryCount": count}
            for first, last, count in acquired
        ]
        part = {"partitionIndex": 0, "errorCode": 0, "acknowledgeErrorCode": 0}
        asked = self._asked(member, [])
        self.add(member, "SHARE_FETCH", asked, _answer(part | {"acquiredRecords": got}), **when)

    def acknowledge(
        self, member: str, first: int, last: int, *types: int, error: int = 0, **when: int
    ) -> None:
        """A ShareAcknowledge; `types` are Kafka's."""
        batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types or (ACCEPT,)}
        asked = self._asked(member, [batch])
        answer = _answer({"partitionIndex": 0, "errorCode": error})
        self.add(member, "SHARE_ACKNOWLEDGE", asked, answer, **when)

    def _asked(self, member: str, batches: list[Any]) -> dict[str, Any]:
        part = {"partitionIndex": 0, "acknowledgementBatches": batches}
        asked = {"groupId": GROUP, "memberId": member, "shareSessionEpoch": 1}
        return asked | {"topics": [{"topicId": TOPIC, "partitions": [part]}]}


def _answer(part: dict[str, Any]) -> dict[str, Any]:
    return {"errorCode": 0, "responses": [{"topicId": TOPIC, "partitions": [part]}]}
