"""Exchanges of frequent APIs: what facts need of them, and their encoding in a spool.

A request log has mostly these. Their bodies are decoded when machines take them, not before.
"""

import msgspec

from brokertwin.protocol.kafka_apis import API_KEYS, FETCH
from brokertwin.recordings.formats.documents import Details, Document, api_name
from brokertwin.recordings.formats.request_log import Usual
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import RecordedRequest, is_own
from brokertwin.recordings.history.holes import Numbered, session_number
from brokertwin.recordings.replay.recording import stages_of
from brokertwin.state.core.events import RequestHeader

APIS = ("FETCH", "PRODUCE", "OFFSET_COMMIT", "HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT")
"""Of their bodies, facts need only the follower and the session of a FETCH."""

KEYS = frozenset(API_KEYS[api] for api in APIS)


class SpooledLine(RecordedRequest, frozen=True, array_like=True):
    """A request without the names of its fields."""


class Spooled(msgspec.Struct, array_like=True):
    """An exchange in a spool; its bodies are JSON, and are decoded when it is taken.

    Attributes:
        stages: its fields behind the bodies, to the time in the broker's queues.
        listener: the listener; "" if it is not recorded.
        is_forwarded: whether a broker forwarded it to the controller.
        is_error_free: whether its response certainly has no error.
        is_batch_free: whether its request certainly has no batch headers.
        arrival: its arrival, or that of the connection's request before it if later, in ms since
            1970.
    """

    line: SpooledLine
    stages: tuple[bool, float, float, bool, float]
    listener: str
    is_forwarded: bool
    is_error_free: bool
    is_batch_free: bool
    request: bytes
    response: bytes
    arrival: int


encode = msgspec.msgpack.Encoder().encode
_BEGIN = bytes((0x90 + len(Spooled.__struct_fields__), 0x90 + len(SpooledLine.__struct_fields__)))
"""The heads of the two arrays in msgpack."""


class Frequent(msgspec.Struct, array_like=True, gc=False):
    """An exchange of these APIs.

    Attributes:
        end: the last ms at which the broker may have responded, in ms since 1970.
        taken, made, busy_ms: attributes of the exchange.
        follower: the broker that sent a FETCH; below 0 for clients.
        wait_ms: how long a FETCH may wait.
        numbered: the place of an accepted FETCH in its session.
        times, client, rest: the parts of its encoding that the line shows, each without the head
            of an array.
    """

    end: int
    taken: float
    made: float
    busy_ms: float
    follower: int
    wait_ms: int
    numbered: Numbered | None
    times: bytes
    client: bytes
    rest: bytes

    def spooled(self, place: str, broker: int, connection: str, arrival: int) -> bytes:
        """Return the encoded `Spooled`, with what other lines show."""
        found = _BEGIN, encode(place), self.times, encode(broker), self.client
        return b"".join((*found, encode(connection), self.rest, encode(arrival)))


class _State(msgspec.Struct, rename="camel", gc=False):
    replica_id: int = -1


class _Fetch(msgspec.Struct, rename="camel", gc=False):
    replica_id: int = -1
    replica_state: _State | None = None
    max_wait_ms: int = 0
    session_id: int = 0
    session_epoch: int = 0


class _Response(msgspec.Struct, rename="camel", gc=False):
    error_code: int = 0


_fetch_decoder = msgspec.json.Decoder(_Fetch)
_response_decoder = msgspec.json.Decoder(_Response)


def frequent(document: Document) -> Frequent | None:
    """Return what is known of a document whose shape was checked; None if it has to be decoded."""
    details = document.read
    if details is None or not bytes(document.response).startswith(b"{"):
        return None
    return frequent_of(
        document.header,
        document.request,
        document.response,
        document.time,
        details.response_time,
        details.host,
        details,
    )


def frequent_of(
    header: RequestHeader,
    request: msgspec.Raw,
    response: msgspec.Raw,
    time: int,
    duration: float,
    host: str,
    details: Details | Usual,
) -> Frequent | None:
    """Return what is known of an exchange whose shape was checked; None if it has to be decoded.

    Args:
        header: of the request.
        request: its body, an object.
        response: the response body, an object.
        time: arrival of the request, in ms since 1970.
        duration: time until the response, in ms.
        host: host of the client.
        details: other fields of the line.
    """
    key, client = header.request_api_key, header.client_id or ""
    sent, received = bytes(request), bytes(response)
    if key not in KEYS or not bodies.is_batch_free(sent):
        return None
    follower, wait_ms, numbered = -1, 0, None
    is_error_free = bodies.is_error_free(received)
    if key == FETCH.key:
        try:
            fetch = _fetch_decoder.decode(sent)
            code = 0 if is_error_free else _response_decoder.decode(received).error_code
        except msgspec.MsgspecError:
            return None
        state = fetch.replica_state
        follower = max(fetch.replica_id, state.replica_id if state is not None else -1)
        wait_ms = fetch.max_wait_ms
        if not code:
            numbered = session_number(fetch.session_id, fetch.session_epoch, client, follower)
    end, taken, made, has_waited, busy_ms = stages_of(key, time, duration, details)
    api = api_name(key)
    rest = (
        *(api, header.request_api_version, is_own(api, client, follower)),
        (True, taken, made, has_waited, busy_ms),
        *(details.listener, details.is_forwarded, is_error_free, True),
        *(sent, received),
    )
    times, of_client, of_bodies = encode((time, end)), encode((client, host)), encode(rest)
    more = follower, wait_ms, numbered, times[1:], of_client[1:], of_bodies[1:]
    return Frequent(end, taken, made, busy_ms, *more)
