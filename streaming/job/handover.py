"""A recording through a job that runs: its events into `requests`, the job's answers compared.

The recorded ids are kept (`choices.py`), as with the other engines. A job that takes times as
written (event_time `recorded`) gets the events in the order that explains the recorded answers;
one that clamps times gets them as they arrived. Nothing is said of a request that the job has not
answered yet.
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
from brokertwin.kafka_io.topic_writer import NewRow
from brokertwin.kafka_io.topics import full_name
from brokertwin.recordings.replay import report
from brokertwin.recordings.replay.comparison import Answer, Verdict, decode_answer
from brokertwin.recordings.replay.plan import Plan, plan
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.recordings.replay.report import Compared
from brokertwin.recordings.replay.schedule import Events
from brokertwin.state.configs import broker_config
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Kind, Reason, Refusal
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job.edge import check_event

RECORDED = "recorded"
POLL_S = 0.5


class Handover(NamedTuple):
    """What a job is given of a recording.

    Attributes:
        exchanges: those that the job takes, in order.
        refused: the others, and why.
        planned: the events; None where the job takes none of the exchanges.
        placed: the job's cluster.
    """

    exchanges: list[Exchange]
    refused: list[tuple[Exchange, Refusal]]
    planned: Plan | None
    placed: Placement

    def rows(self) -> Iterator[NewRow]:
        """The rows of the topic `requests`."""
        cell = self.placed.cells[0]
        partition = self.placed.partition_of(cell)
        for document in self.planned.documents if self.planned is not None else ():
            event_id = msgspec.json.decode(document, type=_Identified).id
            yield NewRow(cell, document, partition, event_id)

    def wanted(self) -> set[str]:
        """The ids of the requests that will be answered."""
        steps = self.planned.schedule.steps if self.planned is not None else ()
        return {step.exchange_id for step in steps if step.kind is Kind.REQUEST}

    def compared(self, answers: Mapping[str, Answer]) -> list[Compared]:
        """The verdict on each request that the job has answered and the real broker had, too.

        Times are not compared: a job answers when its micro-batch comes.
        """
        if self.planned is None:
            return []
        schedule = msgspec.structs.replace(self.planned.schedule, unexplained=frozenset())
        known = [one for one in self.exchanges if one.id in answers or one.id in schedule.lost]
        found = report.compare_all(known, schedule, answers, frozenset())
        return [one for one in found if one.outcome.verdict is not Verdict.NOT_RECORDED]


class _Identified(msgspec.Struct):
    id: str


def prepare(
    history: Recording, placed: Placement, on_progress: Callable[[int], None] = lambda _: None
) -> Handover:
    """Choose what the job takes of a recording, and put it in order.

    Args:
        history: the recording.
        placed: the job's cluster that gets it.
        on_progress: called with the number of moments that are decided, of two for each event.
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
    """The settings of the brokers that a job models."""
    return broker_config.parse(placed.broker_settings)[0]


def unlike(recorded: BrokerSettings, placed: Placement) -> dict[str, tuple[object, object]]:
    """Settings that the recorded broker had otherwise than the job has them: name to both."""
    of_job = settings_of_job(placed)
    both = {
        name: (getattr(recorded, field), getattr(of_job, field))
        for name, field in broker_config.TYPED.items()
    }
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def ends(client: ClientProperties, prefix: str) -> dict[int, int]:
    """Where each partition of `responses` ends now. Raises UserError as `read_all`."""
    topic = full_name(prefix, outputs.RESPONSES)
    partitions = range(partitions_of(client, topic))
    with closing(consumer(client)) as reader:
        return {n: first_and_end(reader, TopicPartition(topic, n))[1] for n in partitions}


def all_answers(client: ClientProperties, prefix: str) -> dict[str, Answer]:
    """What the job has answered so far, by request id; of a repeated id the last."""
    rows = read_all(client, full_name(prefix, outputs.RESPONSES))
    return {row.id: decode_answer(row.value) for row in rows if row.value}


def wait_for_answers(
    client: ClientProperties,
    prefix: str,
    first: Mapping[int, int],
    wanted: set[str],
    patience_s: float,
    on_progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Answer]:
    """What the job answers from now on, by request id.

    Args:
        client: how to reach Kafka.
        prefix: the job's.
        first: from `ends`, before the events were sent.
        wanted: the ids to wait for.
        patience_s: it ends, too, when there was no news for so long.
        on_progress: called with the number of answers.

    Raises:
        UserError: Kafka does not answer.
    """
    topic = full_name(prefix, outputs.RESPONSES)
    position = dict(first)
    found: dict[str, Answer] = {}
    heard = time.monotonic()
    while len(found) < len(wanted):
        before = len(found)
        for row in read_all(client, topic, position):
            position[row.partition] = row.offset + 1
            if row.id in wanted and row.id not in found and row.value:
                found[row.id] = decode_answer(row.value)
        on_progress(len(found))
        if len(found) > before:
            heard = time.monotonic()
        elif time.monotonic() - heard > patience_s:
            break
        time.sleep(POLL_S)
    return found
