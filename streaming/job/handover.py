"""Sends a recording to a running job and compares its responses.

The recorded ids are kept (`choices.py`), as in the other engines. A job with event_time `recorded`
receives events in the order that explains the recorded responses; a job that clamps times receives
them in arrival order. Requests without a response yet are not reported.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

import msgspec
from confluent_kafka import TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import consumer, first_and_end, partitions_of, read_all
from brokertwin.kafka_io.topics import full_name
from brokertwin.recordings.replay import report
from brokertwin.recordings.replay.comparison import CompareVerdict, ModelResponse, decode_response
from brokertwin.recordings.replay.plan import ReplayPlan, plan
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.recordings.replay.report import Compared
from brokertwin.recordings.replay.schedule import Events
from brokertwin.sinks.topic_writer import NewRow
from brokertwin.state.configs import broker_config
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Kind, Reason, Refusal
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job.edge import check_event

RECORDED = "recorded"
POLL_S = 0.5


class Handover(NamedTuple):
    """A recording prepared for a job.

    Attributes:
        exchanges: those that the job accepts, in order.
        planned: the events; None without accepted exchanges.
        placed: the job's cluster.
    """

    exchanges: list[Exchange]
    refused: list[tuple[Exchange, Refusal]]
    planned: ReplayPlan | None
    placed: Placement

    def rows(self) -> Iterator[NewRow]:
        """Yield the rows for the topic `requests`."""
        cell = self.placed.cells[0]
        partition = self.placed.partition_of(cell)
        for document in self.planned.documents if self.planned is not None else ():
            event_id = msgspec.json.decode(document, type=_Identified).id
            yield NewRow(cell, document, partition, event_id)

    def wanted(self) -> set[str]:
        steps = self.planned.schedule.steps if self.planned is not None else ()
        return {step.exchange_id for step in steps if step.kind is Kind.REQUEST}

    def compared(self, responses: Mapping[str, ModelResponse]) -> list[Compared]:
        """Compare the responses of the job with recorded ones.

        Times are not compared, because a job responds after its micro-batch.
        """
        if self.planned is None:
            return []
        schedule = msgspec.structs.replace(self.planned.schedule, unexplained=frozenset())
        known = [one for one in self.exchanges if one.id in responses or one.id in schedule.lost]
        found = report.compare_all(known, schedule, responses, frozenset())
        return [one for one in found if one.outcome.verdict is not CompareVerdict.NOT_RECORDED]


class _Identified(msgspec.Struct):
    id: str


def prepare(
    history: Recording, placed: Placement, on_progress: Callable[[int], None] = lambda _: None
) -> Handover:
    """Select and order the exchanges that the job accepts.

    Args:
        history: the recording.
        placed: the job's cluster for it.
        on_progress: called with the number of processed moments, two for each event.
    """
    ends = [each for each in history.ends if each.broker in placed.brokers]
    events = Events(history.exchanges, [None] * len(history.exchanges), placed.cluster)
    taken: list[Exchange] = []
    refused: list[tuple[Exchange, Refusal]] = []
    for exchange in history.exchanges:
        refusal = _refusal(exchange, placed, events)
        if refusal is None:
            taken.append(exchange)
        else:
            refused.append((exchange, refusal))
    if not taken:
        return Handover([], refused, None, placed)
    planned = plan(
        Recording(taken, [], ends=ends),
        placed.cluster,
        settings_of_job(placed),
        is_compared=placed.event_time == RECORDED,
        on_progress=on_progress,
    )
    return Handover(taken, refused, planned, placed)


def _refusal(exchange: Exchange, placed: Placement, events: Events) -> Refusal | None:
    if exchange.broker not in placed.brokers:
        detail = f"broker {exchange.broker} is not one of {placed.brokers}"
        return Refusal(Reason.UNKNOWN_BROKER, detail)
    return check_event(events.request(exchange.id, exchange.time))


def settings_of_job(placed: Placement) -> BrokerSettings:
    return broker_config.parse(placed.broker_settings)[0]


def unlike(recorded: BrokerSettings, placed: Placement) -> dict[str, tuple[object, object]]:
    """Settings that differ between recorded broker and job, by name."""
    of_job = settings_of_job(placed)
    both = {
        name: (getattr(recorded, field), getattr(of_job, field))
        for name, field in broker_config.TYPED.items()
    }
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def ends(client: ClientProperties, prefix: str) -> dict[int, int]:
    """End offsets of `responses` now. Raises UserError like `read_all`."""
    topic = full_name(prefix, outputs.RESPONSES)
    partitions = range(partitions_of(client, topic))
    with closing(consumer(client)) as reader:
        return {n: first_and_end(reader, TopicPartition(topic, n))[1] for n in partitions}


def all_responses(client: ClientProperties, prefix: str) -> dict[str, ModelResponse]:
    """Responses of the job so far by request id; the last of a repeated id."""
    rows = read_all(client, full_name(prefix, outputs.RESPONSES))
    return {row.id: decode_response(row.value) for row in rows if row.value}


def wait_for_responses(
    client: ClientProperties,
    prefix: str,
    first: Mapping[int, int],
    ids: set[str],
    patience_s: float,
    on_progress: Callable[[int], None] = lambda _: None,
) -> dict[str, ModelResponse]:
    """Collect the responses from now on, by request id.

    Args:
        client: the connection to Kafka.
        prefix: the job's topic prefix.
        first: result of `ends` before the events were sent.
        ids: the ids to wait for.
        patience_s: gives up after this time without a new response.
        on_progress: called with the number of responses.

    Raises:
        UserError: Kafka does not respond.
    """
    topic = full_name(prefix, outputs.RESPONSES)
    position = dict(first)
    responses: dict[str, ModelResponse] = {}
    last_news = time.monotonic()
    while len(responses) < len(ids):
        before = len(responses)
        for row in read_all(client, topic, position):
            position[row.partition] = row.offset + 1
            if row.id in ids and row.id not in responses and row.value:
                responses[row.id] = decode_response(row.value)
        on_progress(len(responses))
        if len(responses) > before:
            last_news = time.monotonic()
        elif time.monotonic() - last_news > patience_s:
            break
        time.sleep(POLL_S)
    return responses
