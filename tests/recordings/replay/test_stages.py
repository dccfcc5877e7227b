"""Times of requests and responses, derived from the stages in a log."""

import msgspec

from brokertwin.recordings.observed.exchanges import exchange_of

HEADER = {"requestApiKey": 1, "requestApiVersion": 17, "clientId": "c"}


def document(**fields: object) -> bytes:
    return msgspec.json.encode(
        {"id": "f:1", "broker": 2, "time": 1000, "requestHeader": HEADER, "request": {}, **fields}
    )


def test_a_wait_lies_between_the_two_moments() -> None:
    stages = {
        "responseTime": 507.5,
        "requestQueueTimeMs": 5.0,
        "remoteTimeMs": 500.0,
        "responseQueueTimeMs": 0.25,
        "sendTimeMs": 0.75,
    }
    exchange = exchange_of(document(response={}, **stages))
    assert (exchange.taken, exchange.made) == (1508 - 507.5 + 5.0, 1508 - 1.0)
    assert exchange.has_waited
    assert (exchange.place, exchange.broker) == ("f:1", 2)


def test_a_capture_says_nothing_of_stages() -> None:
    exchange = exchange_of(document())
    assert (exchange.taken, exchange.made, exchange.has_waited) == (1000, 1000, False)
    assert exchange.response == b"null"
