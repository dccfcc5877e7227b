"""Audit of producer epochs: older ones are fenced, and none is assigned twice.

A request must fail if its epoch was older, when it was sent, than an assigned one of its producer
id.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdRequest

GIVE_EPOCHS = ("INIT_PRODUCER_ID", "END_TXN")
"""APIs whose responses assign epochs; EndTxn since version 5 (KIP-890)."""

NO_EPOCH = -1


class EpochAudit:
    """The newest epoch of each producer id, and fenced requests."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self.fenced = 0
        self._violate = violate
        self._newest: dict[int, int] = {}
        self._late: set[str] = set()
        self._given: dict[tuple[int, int], str] = {}
        self._owners: defaultdict[str, set[str]] = defaultdict(set)

    def has_rivals(self, transactional_id: str) -> bool:
        """True if several producers have used a transactional id."""
        return len(self._owners[transactional_id]) > 1

    def on_request(self, client: str, request_id: str, body: Any) -> None:
        if isinstance(body, InitProducerIdRequest) and body.transactional_id is not None:
            self._owners[body.transactional_id].add(client)
        found = _id_and_epoch(body)
        if found is not None and found[1] < self._newest.get(found[0], -1):
            self._late.add(request_id)
            self.fenced += 1

    def on_response(self, client: str, request_id: str, api: str, body: dict[str, Any]) -> None:
        if api in GIVE_EPOCHS and body.get("producerEpoch", NO_EPOCH) > NO_EPOCH:
            producer_id = body["producerId"]
            epoch = body["producerEpoch"]
            self._newest[producer_id] = max(self._newest.get(producer_id, -1), epoch)
            before = self._given.setdefault((producer_id, epoch), client)
            if before != client:
                text = f"epoch {epoch} of producer {producer_id}"
                self._violate(f"{text} is given to {before} and to {client}")
        elif request_id in self._late and Error.NONE in set(_errors(body)):
            self._violate(f"{api} {request_id} has an epoch that was fenced, and is acknowledged")


def _id_and_epoch(body: Any) -> tuple[int, int] | None:
    for topic in getattr(body, "topic_data", ()):
        batch = topic.partition_data[0].batches[0]
        return (batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
    for prefix in ("", "v3_and_below_"):
        if hasattr(body, f"{prefix}producer_epoch"):
            epoch = getattr(body, f"{prefix}producer_epoch")
            return getattr(body, f"{prefix}producer_id"), epoch
    return None


def _errors(body: Any) -> list[int]:
    """Return the error codes of a response's partitions, or else its own."""
    if isinstance(body, list):
        return [code for each in body for code in _errors(each)]
    nested = [code for each in body.values() if isinstance(each, list) for code in _errors(each)]
    codes = [body[name] for name in ("errorCode", "partitionErrorCode") if name in body]
    return nested or codes
