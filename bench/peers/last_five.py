"""The broker's check of an idempotent producer's batch, for other stream processors.

A producer's state of one partition is `[end, [first, last, offset], ...]`: the offset that comes
next, and of the last five batches the sequences and the offset.
"""

from typing import Any

import msgspec

KEPT = 5
NONE, OUT_OF_ORDER_SEQUENCE_NUMBER = 0, 45
PRODUCE = 0


class Header(msgspec.Struct, rename="camel"):
    request_api_key: int


class Event(msgspec.Struct, rename="camel"):
    """The fields used of a row of the request topic."""

    id: str
    cluster: str
    request_header: Header
    request: msgspec.Raw


class Batch(msgspec.Struct, rename="camel"):
    """A batch's header."""

    last_offset_delta: int
    producer_id: int
    base_sequence: int


class Partition(msgspec.Struct, rename="camel"):
    index: int
    batches: list[Batch]


class Topic(msgspec.Struct, rename="camel"):
    partition_data: list[Partition]


class Produce(msgspec.Struct, rename="camel"):
    topic_data: list[Topic]


class Answer(msgspec.Struct, rename="camel"):
    """A response row."""

    id: str
    error_code: int
    base_offset: int


events = msgspec.json.Decoder(Event)
produces = msgspec.json.Decoder(Produce)
encode = msgspec.json.encode
State = list[Any]


def read(value: bytes | str) -> tuple[str, str, str, Batch] | None:
    """Return a Produce's id, cluster, producer and batch; None for other events."""
    event = events.decode(value)
    if event.request_header.request_api_key != PRODUCE:
        return None
    partition = produces.decode(event.request).topic_data[0].partition_data[0]
    batch = partition.batches[0]
    return event.id, event.cluster, f"{batch.producer_id}/{partition.index}", batch


def decide(state: State | None, event_id: str, batch: Batch) -> tuple[State, bytes]:
    """Return the state after the batch, and the response's bytes."""
    state = state or [0]
    first, last = batch.base_sequence, batch.base_sequence + batch.last_offset_delta
    for kept in state[1:]:
        if kept[:2] == [first, last]:
            return state, encode(Answer(event_id, NONE, kept[2]))
    if first != (state[-1][1] + 1 if len(state) > 1 else 0):
        return state, encode(Answer(event_id, OUT_OF_ORDER_SEQUENCE_NUMBER, -1))
    offset = state[0]
    end = offset + batch.last_offset_delta + 1
    return [end, *state[1:][1 - KEPT :], [first, last, offset]], encode(
        Answer(event_id, NONE, offset)
    )
