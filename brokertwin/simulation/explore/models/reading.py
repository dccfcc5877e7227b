"""Models of readers with fetch sessions: requests arrive late, responses are lost."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Cluster, Faults, Model, Send
from brokertwin.simulation.explore.invariants import CellHolds, SessionsHideNothing


class Writer(Client):
    """A producer without idempotence that writes one record to each partition in turn."""

    name = "p"
    start = 0

    def __init__(self, partitions: int, records: int) -> None:
        self._partitions = partitions
        self._records = records

    def sends(self, state: int) -> Iterable[Send]:
        """Return the next record."""
        if state == self._records:
            return []
        send = requests.produce("orders", state % self._partitions, f"r{state}")
        return [msgspec.structs.replace(send, may_be_late=False)]

    def receives(self, state: int, _send: Send, _response: Any) -> int:
        """Go on to the next record."""
        return state + 1


class SessionState(NamedTuple):
    """State of a reader.

    Attributes:
        session: the id of its fetch session, 0 for none.
        epoch: of its next request, 0 for a full one.
        positions: its next offset in each partition.
        told: the positions that the session has.
        opened: sessions that it has begun.
        fetches: requests that it has sent.
    """

    session: int = 0
    epoch: int = 0
    positions: tuple[int, ...] = ()
    told: tuple[int, ...] = ()
    opened: int = 0
    fetches: int = 0


class SessionReader(Client):
    """A reader of orders with a fetch session (KIP-227), like Kafka's `FetchSessionHandler`.

    Args:
        fetches: requests that it sends.
    """

    name = "c"

    def __init__(self, partitions: int, fetches: int) -> None:
        self.start = SessionState(positions=(0,) * partitions)
        self._fetches = fetches

    def sends(self, state: SessionState) -> Iterable[Send]:
        """Return a full fetch, or one with the positions that have changed."""
        if state.fetches == self._fetches:
            return []
        changed = [
            {"partition": at, "fetchOffset": offset, "partitionMaxBytes": 2**20}
            for at, offset in enumerate(state.positions)
            if state.epoch == 0 or state.told[at] != offset
        ]
        body = {
            "maxWaitMs": 0,
            "minBytes": 0,
            "maxBytes": 2**20,
            "sessionId": state.session,
            "sessionEpoch": state.epoch,
            "topics": [{"topic": "orders", "partitions": changed}] if changed else [],
        }
        label = f"Fetch, session epoch {state.epoch}"
        nonce = f"{self.name}{state.opened}"
        return [Send(api="FETCH", version=12, body=body, label=label, nonce=nonce)]

    def receives(self, state: SessionState, _send: Send, response: Any) -> SessionState:
        """Move on; begin a new session after an error or without a response."""
        state = state._replace(fetches=state.fetches + 1)
        if response is None:
            return state._replace(epoch=0)
        if response.error_code != Error.NONE:
            is_gone = response.error_code == Error.FETCH_SESSION_ID_NOT_FOUND
            return state._replace(session=0 if is_gone else state.session, epoch=0)
        positions = list(state.positions)
        for topic in response.responses:
            for each in topic.partitions:
                if each.batches:
                    last = each.batches[-1]
                    positions[each.partition_index] = last.base_offset + last.last_offset_delta + 1
        return SessionState(
            response.session_id,
            state.epoch + 1,
            tuple(positions),
            state.positions,
            state.opened + (state.epoch == 0),
            state.fetches,
        )


def sessions() -> Model:
    """A reader whose fetches arrive late or have no response, while records are written."""
    partitions = 2
    return Model(
        name="fetch-session",
        about="KIP-227: fetches of a session arrive late, or their responses are lost",
        clients=(Writer(partitions, 3), SessionReader(partitions, 4)),
        cluster=Cluster(topics={"orders": partitions}),
        faults=Faults(late=1, lost=1),
        invariants=(SessionsHideNothing(), CellHolds()),
    )


def models() -> Iterator[Model]:
    yield sessions()
