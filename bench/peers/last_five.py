"""What a broker checks of an idempotent producer's batch, for processors that are not ours.

A producer's state of one partition is `[end, [first, last, offset], ...]`: the offset that comes
next, and of the last five batches the sequences and the offset.
"""

import msgspec

KEPT = 5
NONE, OUT_OF_ORDER_SEQUENCE_NUMBER = 0, 45
PRODUCE = 0


class Header(msgspec.Struct, rename="camel"):
    """What says that an event is a Produce."""

    request_api_key: int


class Event(msgspec.Struct, rename="camel"):
    """A row of the request topic, with what is needed of it."""

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
    """What goes to a partition."""

    index: int
    batches: list[Batch]


class Topic(msgspec.Struct, rename="camel"):
    """What goes to a topic."""

    partition_data: list[Partition]


class Produce(msgspec.Struct, rename="camel"):
    """A Produce request."""

    topic_data: list[Topic]


class Answer(msgspec.Struct, rename="camel"):
    """What is written."""

    id: str
    error_code: int
    base_offset: int


events = msgspec.json.Decoder(Event)
produces = msgspec.json.Decoder(Produce)
encode = msgspec.json.encode
State = list


def read(value: bytes | str) -> tuple[str, str, str, Batch] | None:
    """The event's id and cluster, its producer's name there, and its batch; None for others."""
    event = events.decode(value)
    if event.request_header.request_api_key != PRODUCE:
        return None
    partition = produces.decode(event.request).topic_data[0].partition_data[0]
    batch = partition.batches[0]
    return event.id, event.cluster, f"{batch.producer_id}/{partition.index}", batch


def decide(state: State | None, event_id: str, batch: Batch) -> tuple[State, bytes]:
    """The state after the batch, and the answer's bytes."""
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
