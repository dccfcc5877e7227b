"""Checks the ids that the model would have generated itself.

A choice hides whether the model's own ids are right. Each request with a choice is therefore also
handled without it, on a copy of the cell, and the ids are compared over the history:

- if the broker's id is new, the model's id must be one that it has not used;
- if the broker's id is known, the model must return the same one.

This covers producer, member, session, topic and client instance ids; a cluster has one id.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.comparison import FieldDifference, ModelResponse
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.image import topic_by_name
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.events import Choices, Event, Kind
from brokertwin.state.core.outputs import Position

NOWHERE = Position(0, 0)
WAIT_MS = 3_600_000
"""How far time advances on the copy, so that a pending request completes."""

TOPIC_ID = "topicId"
PRODUCER_ID = "producerId"
"""Producer ids are counted; the others are random and never collide."""

NONE: dict[str, tuple[Any, ...]] = {
    "sessionId": (None, 0),
    PRODUCER_ID: (None, -1),
    "memberId": (None, ""),
    "clientInstanceId": (None, ZERO_UUID),
}
"""Values of a field without an id."""

FIELDS = (
    ("session_id", "sessionId"),
    ("producer_id", PRODUCER_ID),
    ("member_id", "memberId"),
    ("client_instance_id", "clientInstanceId"),
)
"""Choices that a response has, and their fields."""


class Pick(NamedTuple):
    """An id: its field, the broker's value and the model's."""

    field: str
    chosen: Any
    own: Any


def decided_with_picks(
    documents: Sequence[bytes], cell: Cell
) -> tuple[dict[str, ModelResponse], dict[str, list[FieldDifference]]]:
    """Run the events through a cell, and check the ids it would generate.

    Args:
        documents: the events, in order, with their choices.
        cell: the initial cell.

    Returns:
        Responses as in the engine `local`, and differences of ids, both by exchange id.
    """
    responses: dict[str, ModelResponse] = {}
    picks: list[tuple[str, list[Pick]]] = []
    for offset, document in enumerate(documents):
        event = _decoder.decode(document)
        if event.kind is Kind.REQUEST and event.choices is not None:
            picks.append((event.id, list(own_picks(cell, event, event.choices))))
        responses.update(local.responses_in(cell.handle(document, Position(0, offset))))
    return responses, differing(picks)


def differing(picks: Iterable[tuple[str, Sequence[Pick]]]) -> dict[str, list[FieldDifference]]:
    """Return the differences between generated and recorded ids.

    Args:
        picks: exchanges and their ids, in order.
    """
    used = _UsedIds()
    found = {}
    for exchange_id, own in picks:
        differences = [each for pick in own if (each := used.difference(pick)) is not None]
        if differences:
            found[exchange_id] = differences
    return found


class _UsedIds:
    def __init__(self) -> None:
        self._chosen: dict[str, set[Any]] = defaultdict(set)
        self._own: dict[str, set[Any]] = defaultdict(set)

    def difference(self, pick: Pick) -> FieldDifference | None:
        """Return the fault of an id, if any, and mark the id as used."""
        chosen, own = self._chosen[pick.field], self._own[pick.field]
        is_known = pick.chosen in chosen
        is_taken = pick.own in own or (pick.field != PRODUCER_ID and pick.own in chosen)
        chosen.add(pick.chosen)
        own.add(pick.own)
        if pick.own == pick.chosen:
            return None
        if is_known:
            expected = f"{pick.chosen} again, without a choice"
            return FieldDifference(pick.field, expected, pick.own)
        expected = f"an unused id, without a choice ({pick.chosen})"
        return FieldDifference(pick.field, expected, pick.own) if is_taken else None


def own_picks(cell: Cell, event: Event, choices: Choices) -> Iterator[Pick]:
    """Yield the ids generated without choices; none for a refused request."""
    fields = [(at, value) for name, at in FIELDS if (value := getattr(choices, name)) is not None]
    names = {name for name in choices.topic_ids if topic_by_name(cell.tables.of(CONTROLLER), name)}
    if not fields and not choices.topic_ids.keys() - names:
        return
    copy = cell.copy()
    response = _response_of(copy, event)
    if not isinstance(response, dict):
        return
    for at, value in fields:
        if response.get(at) not in NONE[at]:
            yield Pick(at, value, response[at])
    for name in sorted(choices.topic_ids.keys() - names):
        created = topic_by_name(copy.tables.of(CONTROLLER), name)
        if created is not None:
            yield Pick(TOPIC_ID, choices.topic_ids[name], created.topic_id)


def _response_of(cell: Cell, event: Event) -> Any:
    """Return the response without choices; a pending request times out."""
    plain = msgspec.structs.replace(event, choices=None, is_held=False)
    later = Event(
        id=f"{event.id}/later",
        cluster=event.cluster,
        time=event.time + WAIT_MS,
        kind=Kind.TICK,
    )
    for one in (plain, later):
        found = local.responses_in(cell.handle(_encoder.encode(one), NOWHERE)).get(event.id)
        if found is not None:
            return found.response
    return None


_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()
