"""Substitute for record bytes: the names of a batch's records, in its locator.

The state machine never reads record bytes. A batch that is kept, sealed or dropped keeps its names.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brokertwin.clients.client_loop import Send
from brokertwin.clients.fetcher import Records
from brokertwin.protocol.bodies import render


def named(send: Send, names: Mapping[int, str]) -> dict[str, Any]:
    """Return a request's body with record names in the locators."""
    body = render(send.body, send.version)
    locators = {
        tuple(batch.topic_partition): ",".join(names[each.id] for each in batch.records)
        for batch in send.batches
    }
    for topic in body.get("topicData", ()):
        for partition in topic["partitionData"]:
            partition["batches"][0]["locator"] = locators[topic["name"], partition["index"]]
    return body


def records_of(
    body: Mapping[str, Any], *, is_committed: bool = False
) -> dict[tuple[str, int], Records]:
    """Return the records in a Fetch response, by topic name or id and partition.

    Omits markers, and with `is_committed` records of aborted transactions.
    """
    records = {}
    for topic in body["responses"]:
        for partition in topic["partitions"]:
            batches = partition["batches"]
            if batches:
                name = topic.get("topic") or topic["topicId"]
                aborted = partition.get("abortedTransactions") if is_committed else None
                records[name, partition["partitionIndex"]] = Records(
                    items_of(batches, aborted or ()), *ends_of(batches)
                )
    return records


def ends_of(batches: Sequence[Mapping[str, Any]]) -> tuple[int, list[tuple[int, int]]]:
    ends = [
        (each["baseOffset"] + each["lastOffsetDelta"] + 1, each["partitionLeaderEpoch"])
        for each in batches
    ]
    return ends[-1][0], ends


def items_of(
    batches: Iterable[Mapping[str, Any]], aborted: Iterable[Mapping[str, Any]]
) -> list[tuple[int, str]]:
    """Return offsets and names of records, without those of `aborted` transactions."""
    begins = sorted((each["firstOffset"], each["producerId"]) for each in aborted)
    open_ones: set[int] = set()
    items: list[tuple[int, str]] = []
    for batch in batches:
        first = batch["baseOffset"]
        while begins and begins[0][0] <= first + batch["lastOffsetDelta"]:
            open_ones.add(begins.pop(0)[1])
        if batch["isControl"]:
            marker = batch.get("endMarker")
            if marker is not None and not marker["isCommit"]:
                open_ones.discard(batch["producerId"])
        elif not (batch["isTransactional"] and batch["producerId"] in open_ones):
            names = (batch.get("locator") or "").split(",")
            items += [(first + at, name) for at, name in enumerate(names)]
    return items
