"""Which requests a fault affects, and what becomes of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.faults import injection
from brokertwin.gateway.faults.failures import RequestedFetchPartition
from brokertwin.gateway.faults.fault import Effect, Fault, FaultSpec
from brokertwin.gateway.faults.injection import FaultSet, InjectedFaults
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.kafka_apis import API_KEYS


class Known:
    """A cluster with the topics orders and payments; session 9 has orders-1."""

    def name_of(self, topic_id: str) -> str | None:
        return {"id-1": "orders"}.get(topic_id)

    def topic_names(self) -> list[str] | None:
        return None

    def fetched(
        self, request: RequestFrame, broker: int | None
    ) -> Iterator[RequestedFetchPartition]:
        if request.body.get("sessionId") == 9:
            yield RequestedFetchPartition("orders", ("topic", "orders"), 1)


def request(api: str, client: str = "mine", version: int = 9, **body: Any) -> RequestFrame:
    header = {"requestApiKey": API_KEYS[api], "requestApiVersion": version, "clientId": client}
    return RequestFrame({**header, "requestApiKeyName": api}, body)


def produce(*topics: str, acks: int = -1) -> RequestFrame:
    data = [{"name": topic, "partitionData": [{"index": 0}]} for topic in topics]
    return request("PRODUCE", acks=acks, topicData=data)


def inject(
    faults: FaultSet, request_frame: RequestFrame, broker: int | None = 1
) -> InjectedFaults | None:
    return faults.inject(request_frame, broker, Known())


def hits(spec: dict[str, Any], count: int) -> list[int]:
    """Return the numbers, from 1, of the requests that a fault affects."""
    faults = FaultSet([FaultSpec(effect=Effect.LOSE, **spec)])
    return [n for n in range(1, count + 1) if inject(faults, produce("orders"))]


@pytest.mark.parametrize(
    ("spec", "affected"),
    [
        ({}, [1]),
        ({"times": 2}, [1, 2]),
        ({"nth": 3}, [3]),
        ({"nth": 3, "times": 2}, [3, 4]),
        ({"nth": 4, "times": "all"}, [4, 5, 6]),
        ({"probability": 1.0, "times": "all"}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_nth_and_times_choose_among_the_matching_requests(
    spec: dict[str, Any], affected: list[int]
) -> None:
    assert hits(spec, 6) == affected


def test_probability_depends_on_the_seed_alone() -> None:
    spec = {"probability": 0.3, "times": "all"}
    first = hits({**spec, "seed": 1}, 1000)
    assert first == hits({**spec, "seed": 1}, 1000) != hits({**spec, "seed": 2}, 1000)
    assert 250 < len(first) < 350
    later = hits({**spec, "seed": 1, "nth": 500}, 1000)
    assert later == [number for number in first if number >= 500]


@pytest.mark.parametrize(
    ("spec", "is_match"),
    [
        ({"api": "PRODUCE"}, True),
        ({"api": "FETCH"}, False),
        ({"api": 0, "client": "mine"}, True),
        ({"client": "other"}, False),
        ({"broker": 1}, True),
        ({"broker": 2}, False),
        ({"topic": "orders"}, True),
        ({"topic": "orders", "partition": 0}, True),
        ({"topic": "orders", "partition": 1}, False),
        ({"topic": "payments"}, False),
    ],
)
def test_filters(spec: dict[str, Any], is_match: bool) -> None:
    faults = FaultSet([FaultSpec(effect=Effect.LOSE, **spec)])
    assert bool(inject(faults, produce("orders"))) is is_match


def test_a_fetch_names_the_partitions_of_its_session() -> None:
    faults = FaultSet([FaultSpec(effect=Effect.LOSE, topic="orders", partition=1, times="all")])
    assert inject(faults, request("FETCH", sessionId=9, topics=[]))
    assert not inject(faults, request("FETCH", sessionId=8, topics=[]))


def test_without_an_api_requests_of_the_connection_are_not_affected() -> None:
    faults = FaultSet([FaultSpec(effect=Effect.CUT, times="all")])
    assert not inject(faults, request("API_VERSIONS"))
    assert inject(faults, request("HEARTBEAT"))
    named = FaultSet([FaultSpec(effect=Effect.CUT, api="API_VERSIONS")])
    assert inject(named, request("API_VERSIONS"))


def test_each_fault_counts_the_requests_that_match_it() -> None:
    faults = FaultSet(
        [
            FaultSpec(effect=Effect.LOSE),
            FaultSpec(effect=Effect.CUT, nth=2),
            FaultSpec(effect=Effect.DELAY, ms=5, nth=2),
        ]
    )
    injected_faults = [inject(faults, produce("orders")) for _ in range(3)]
    assert [str(each) if each else None for each in injected_faults] == [
        "any request response lost",
        "any request connection cut and any request delayed by 5 ms",
        None,
    ]
    lose, cut, delay = faults.faults
    assert (lose.matches, cut.matches, delay.matches) == (3, 3, 3)


def test_a_chosen_request_of_another_fault_leaves_the_fault_for_the_next() -> None:
    faults = FaultSet([FaultSpec(effect=Effect.LOSE, nth=2), FaultSpec(effect=Effect.CUT, nth=2)])
    effects = [
        (injected_fault and injected_fault.effect)
        for injected_fault in (inject(faults, produce()) for _ in range(4))
    ]
    assert effects == [None, Effect.LOSE, Effect.CUT, None]


def test_a_failing_topic_leaves_the_rest_of_a_produce() -> None:
    spec = FaultSpec(effect=Effect.FAIL, error="KAFKA_STORAGE_ERROR", topic="orders")
    wanted = produce("orders", "payments")
    injected_faults = inject(FaultSet([spec]), wanted)
    assert injected_faults is not None
    plan = injected_faults.plan(wanted, 1, Known())
    assert plan.forwarded is not None
    assert [topic["name"] for topic in plan.forwarded["topicData"]] == ["payments"]
    assert [topic["name"] for topic in plan.refused["topicData"]] == ["orders"]
    good = {"name": "payments", "partitionResponses": [{"index": 0, "errorCode": 0}]}
    response = plan.respond({"responses": [good]})
    assert response is not None
    errors = {t["name"]: t["partitionResponses"][0]["errorCode"] for t in response["responses"]}
    assert errors == {"payments": Error.NONE, "orders": Error.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize(("acks", "has_response"), [(-1, True), (0, False)])
def test_a_produce_that_fails_as_a_whole_is_not_forwarded(acks: int, has_response: bool) -> None:
    wanted = produce("orders", acks=acks)
    spec = FaultSpec(effect=Effect.FAIL, api="PRODUCE", error="KAFKA_STORAGE_ERROR")
    injected_faults = inject(FaultSet([spec]), wanted)
    assert injected_faults is not None
    plan = injected_faults.plan(wanted, 1, Known())
    assert plan.forwarded is None
    assert bool(plan.respond(None)) is has_response


def test_a_topic_of_all_topics_in_metadata_is_replaced() -> None:
    wanted = request("METADATA", topics=None)
    spec = FaultSpec(effect=Effect.FAIL, error="LEADER_NOT_AVAILABLE", topic="orders")
    injected_faults = inject(FaultSet([spec]), wanted)
    assert injected_faults is not None
    plan = injected_faults.plan(wanted, 1, Known())
    assert plan.forwarded == wanted.body
    topics = [{"name": name, "errorCode": 0} for name in ("orders", "payments")]
    response = plan.respond({"topics": topics})
    assert response is not None
    errors = {topic["name"]: topic["errorCode"] for topic in response["topics"]}
    assert errors == {"orders": Error.LEADER_NOT_AVAILABLE, "payments": 0}


def test_a_throttle_time_is_in_the_response() -> None:
    injected_faults = inject(
        FaultSet([FaultSpec(effect=Effect.THROTTLE, ms=300)]), produce("orders")
    )
    assert injected_faults is not None
    response = injected_faults.plan(produce("orders"), 1, Known()).respond({"throttleTimeMs": 0})
    assert response == {"throttleTimeMs": 300}


def test_release_lets_held_requests_continue_in_order() -> None:
    fault = Fault(FaultSpec(effect=Effect.HOLD, times="all"))
    order: list[int] = []
    for number in range(3):
        fault.hold(lambda number=number: order.append(number))  # type: ignore[misc]
    assert (order, fault.held) == ([], 3)
    fault.release()
    assert (order, fault.held, fault.is_over) == ([0, 1, 2], 0, True)
    fault.hold(lambda: order.append(3))
    assert order == [0, 1, 2, 3]


def test_removing_a_fault_releases_what_it_holds() -> None:
    faults = FaultSet([FaultSpec(effect=Effect.HOLD), FaultSpec(effect=Effect.HOLD)])
    released: list[int] = []
    for fault in faults.faults:
        fault.hold(lambda number=fault.number: released.append(number))  # type: ignore[misc]
    faults.remove(1)
    assert (released, [fault.number for fault in faults.faults]) == ([1], [2])
    faults.clear()
    assert (released, faults.faults) == ([1, 2], ())


def test_the_number_of_faults_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "FAULTS_MAX", 1)
    faults = FaultSet([FaultSpec(effect=Effect.CUT)])
    with pytest.raises(UserError, match=r"There are 1 faults already\. Delete some first"):
        faults.add(FaultSpec(effect=Effect.CUT))
