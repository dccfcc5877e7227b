"""Recordings made by hand: requests with times, answered in an order that only the test knows.

A broker (the machine itself) handles the requests in the given order; the recording shows only when
each arrived and had been answered, as a proxy would have seen it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.choices import choices_of
from brokertwin.recordings.replay.comparison import Comparer, ComparisonOutcome
from brokertwin.recordings.replay.plan import ReplayPlan, plan
from brokertwin.recordings.replay.recording import Exchange, Recording, merge
from brokertwin.recordings.replay.report import compare_all
from brokertwin.recordings.replay.schedule import DeliverySchedule, DeliveryStep, Events
from brokertwin.recordings.replay.search import LIMITS, SearchLimits
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.settings import BrokerSettings
from tests.support.machine import header, produce_body

START = 1_700_000_000_000
CLUSTER = "race"
TOPIC = "orders"
SETTINGS = BrokerSettings(auto_create_topics_enable=False)


class TimedRequest(NamedTuple):
    """A request: its name, when it arrives and how long its response takes, in ms."""

    name: str
    api: str
    version: int
    body: dict[str, Any]
    at: int
    takes: int = 1
    connection: str = "c1"


def create(at: int = 0, takes: int = 1, connection: str = "admin") -> TimedRequest:
    topic = {"name": TOPIC, "numPartitions": 2, "replicationFactor": 1}
    body = {"topics": [topic], "timeoutMs": 30000}
    return TimedRequest("create", "CREATE_TOPICS", 7, body, at, takes, connection)


def produce(
    name: str, at: int, takes: int, connection: str, acks: int = 1, topic: str = TOPIC
) -> TimedRequest:
    times = {"baseTimestamp": START, "maxTimestamp": START}
    batch = header(**times, magic=2, crc=sum(name.encode()))
    body = produce_body(topic, batch, acks=acks, timeoutMs=1000)
    return TimedRequest(name, "PRODUCE", 10, body, at, takes, connection)


def fetch(
    name: str, at: int, takes: int, connection: str, max_wait: int, offset: int = 0
) -> TimedRequest:
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1_000_000}
    body = {
        "maxWaitMs": max_wait,
        "minBytes": 1,
        "maxBytes": 1_000_000,
        "sessionEpoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [partition]}],
    }
    return TimedRequest(name, "FETCH", 11, body, at, takes, connection)


def metadata(name: str, at: int, takes: int = 1, connection: str = "admin") -> TimedRequest:
    body = {"topics": [{"name": TOPIC}], "allowAutoTopicCreation": False}
    return TimedRequest(name, "METADATA", 9, body, at, takes, connection)


def list_offsets(name: str, at: int, takes: int, connection: str) -> TimedRequest:
    partition = {"partitionIndex": 0, "timestamp": -1}
    body = {"replicaId": -1, "topics": [{"name": TOPIC, "partitions": [partition]}]}
    return TimedRequest(name, "LIST_OFFSETS", 5, body, at, takes, connection)


def recorded(
    requests: Sequence[TimedRequest],
    handled: Sequence[tuple[str, int]],
    brokers: Sequence[int] = (1,),
) -> Recording:
    """The recording of requests that a broker handled in the order and at the times of `handled`.

    A request that is not handled has the response null, like a lost one. Topics are created at the
    last of the brokers; all other requests go to broker 1.
    """
    last_broker = brokers[-1]
    queries = merge([_exchange(one, None, last_broker) for one in requests])
    events = Events(queries, choices_of(queries), CLUSTER)
    steps = [events.request(name, START + time) for name, time in handled]
    last = max(one.at + one.takes for one in requests)
    settings = local.cell_settings(CLUSTER, list(brokers), SETTINGS)
    replies = local.run([*steps, events.tick(START + last)], settings)
    responses = {
        name: response.response for name, response in replies.items() if response.error is None
    }
    exchanges = [_exchange(one, responses.get(one.name), last_broker) for one in requests]
    return Recording(merge(exchanges), [])


def _exchange(requests: TimedRequest, response: Any, last_broker: int) -> Exchange:
    return Exchange(
        id=requests.name,
        time=START + requests.at,
        end=START + requests.at + requests.takes,
        broker=last_broker if requests.api == "CREATE_TOPICS" else 1,
        header=RequestHeader(
            API_KEYS[requests.api], requests.version, request_api_key_name=requests.api
        ),
        request=msgspec.Raw(msgspec.json.encode(requests.body)),
        response=response,
        is_recorded=True,
        connection=requests.connection,
        principal="User:ANONYMOUS",
    )


def replayed(
    recording: Recording, limits: SearchLimits = LIMITS
) -> tuple[ReplayPlan, dict[str, ComparisonOutcome]]:
    planned = plan(recording, CLUSTER, SETTINGS, True, limits)
    responses = local.run(planned.documents, planned.settings)
    compared = compare_all(recording.exchanges, planned.schedule, responses, frozenset())
    return planned, {one.exchange.id: one.outcome for one in compared}


def order_of(schedule: DeliverySchedule) -> list[str]:
    return [step.exchange_id for step in schedule.steps if is_request(step)]


def is_request(step: DeliveryStep) -> bool:
    return step.kind == "request"


def comparer(recording: Recording) -> Comparer:
    return Comparer({exchange.id: exchange for exchange in recording.exchanges})
