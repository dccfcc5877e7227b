"""Which node takes a request, and which has the least to do."""

from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.in_flight_requests import InFlightRequests


def requests(*nodes: int, in_flight_max: int = 2) -> InFlightRequests:
    made = InFlightRequests(in_flight_max, retry_backoff(50, 1000), jitter=lambda: 0.5)
    made.set_nodes(list(nodes))
    return made


def test_a_node_accepts_requests_up_to_its_limit() -> None:
    made = requests(1)
    made.sent(1, 10, now=0)
    assert made.may_send(1, now=0)
    made.sent(1, 11, now=0)
    assert not made.may_send(1, now=0)
    made.on_response(1, 10)
    assert made.may_send(1, now=0)


def test_an_unknown_node_takes_none() -> None:
    assert not requests(1).may_send(2, now=0)
    assert requests().least_loaded(now=0) is None


def test_the_least_loaded_node_has_the_fewest_requests_in_flight() -> None:
    made = requests(3, 1, 2)
    assert made.least_loaded(now=0) == 1
    made.sent(1, 10, now=0)
    assert made.least_loaded(now=0) == 2
    made.sent(2, 11, now=0)
    made.sent(3, 12, now=0)
    made.sent(3, 13, now=0)
    made.on_response(2, 11)
    assert made.least_loaded(now=0) == 2


def test_a_closed_connection_returns_its_requests_and_backs_off() -> None:
    made = requests(1)
    made.sent(1, 10, now=0)
    made.sent(1, 11, now=0)
    assert made.disconnected(1, now=0) == [10, 11]
    assert not made.may_send(1, now=49)
    assert made.deadlines(now=49) == [50]
    assert made.may_send(1, now=50)
    made.sent(1, 12, now=50)
    assert made.disconnected(1, now=50) == [12]
    assert not made.may_send(1, now=149)
    assert made.may_send(1, now=150)
    made.sent(1, 13, now=150)
    made.on_response(1, 13)
    assert made.disconnected(1, now=200) == []
    assert made.may_send(1, now=250), "an answer has made the pause short again"


def test_a_removed_node_stays_until_its_responses_arrive() -> None:
    made = requests(1, 2)
    made.sent(1, 10, now=0)
    made.set_nodes([2])
    made.on_response(1, 10)
    made.set_nodes([2])
    assert not made.may_send(1, now=0)
    assert made.may_send(2, now=0)
