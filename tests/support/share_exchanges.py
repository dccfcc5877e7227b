"""Exchanges of a share group made up, of a partition of a topic that is its own id."""

from typing import Any

from brokertwin.state.share.share_partition import ACCEPT
from tests.support.synthetic_recording import GROUP, TOPIC, SyntheticRecording

__all__ = ["GROUP", "Shares"]


class Shares(SyntheticRecording):
    """A recording of share fetches; a client has the name of its member."""

    def give(self, member: str, *acquired: tuple[int, int, int], **when: int) -> None:
        """A ShareFetch that gets records: first, last, how many-th delivery."""
        got = [
            {"firstOffset": first, "lastOffset": last, "deliveryCount": count}
            for first, last, count in acquired
        ]
        part = {"partitionIndex": 0, "errorCode": 0, "acknowledgeErrorCode": 0}
        requested = self._request_body(member, [])
        self.add(
            member, "SHARE_FETCH", requested, _response(part | {"acquiredRecords": got}), **when
        )

    def acknowledge(
        self, member: str, first: int, last: int, *types: int, error: int = 0, **when: int
    ) -> None:
        """A ShareAcknowledge; `types` are Kafka's."""
        batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types or (ACCEPT,)}
        requested = self._request_body(member, [batch])
        response = _response({"partitionIndex": 0, "errorCode": error})
        self.add(member, "SHARE_ACKNOWLEDGE", requested, response, **when)

    def _request_body(self, member: str, batches: list[Any]) -> dict[str, Any]:
        part = {"partitionIndex": 0, "acknowledgementBatches": batches}
        request = {"groupId": GROUP, "memberId": member, "shareSessionEpoch": 1}
        return request | {"topics": [{"topicId": TOPIC, "partitions": [part]}]}


def _response(part: dict[str, Any]) -> dict[str, Any]:
    return {"errorCode": 0, "responses": [{"topicId": TOPIC, "partitions": [part]}]}
