"""Exchanges of frequent APIs: what machines and facts need beside the bodies.

A request log has mostly these. Their bodies are decoded when machines take them, not before.
"""

import msgspec

from brokertwin.protocol.kafka_apis import API_KEYS, FETCH
from brokertwin.recordings.formats.documents import Document, api_name
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import is_own
from brokertwin.recordings.replay.recording import stages_of

APIS = ("FETCH", "PRODUCE", "OFFSET_COMMIT", "HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT")
"""Of their bodies, facts need only the follower of a FETCH."""

_KEYS = frozenset(API_KEYS[api] for api in APIS)


class Frequent(msgspec.Struct, array_like=True, gc=False):
    """An exchange of these APIs.

    Attributes:
        end: the last ms at which the broker may have responded, in ms since 1970.
        is_own: whether a broker sent it.
        taken, made, has_waited, busy_ms: attributes of the exchange.
        is_error_free: whether its response certainly has no error.
        follower: the broker that sent a FETCH; below 0 for clients.
        wait_ms: how long a FETCH may wait.
    """

    end: int
    is_own: bool
    taken: float
    made: float
    has_waited: bool
    busy_ms: float
    is_error_free: bool
    follower: int = -1
    wait_ms: int = 0


class _State(msgspec.Struct, rename="camel", gc=False):
    replica_id: int = -1


class _Fetch(msgspec.Struct, rename="camel", gc=False):
    replica_id: int = -1
    replica_state: _State | None = None
    max_wait_ms: int = 0


_fetch_decoder = msgspec.json.Decoder(_Fetch)


def frequent(document: Document) -> Frequent | None:
    """Return what is known of a document whose shape was checked; None if it has to be decoded."""
    header = document.header
    key = header.request_api_key
    request, response = bytes(document.request), bytes(document.response)
    if key not in _KEYS or document.read is None or not response.startswith(b"{"):
        return None
    if not bodies.is_batch_free(request):
        return None
    follower, wait_ms = -1, 0
    if key == FETCH.key:
        try:
            fetch = _fetch_decoder.decode(request)
        except msgspec.MsgspecError:
            return None
        state = fetch.replica_state
        follower = max(fetch.replica_id, state.replica_id if state is not None else -1)
        wait_ms = fetch.max_wait_ms
    end, taken, made, has_waited, busy_ms = stages_of(document, document.read)
    return Frequent(
        end,
        is_own(api_name(key), header.client_id or "", follower),
        taken,
        made,
        has_waited,
        busy_ms,
        bodies.is_error_free(response),
        follower,
        wait_ms,
    )
