"""A job decided again as it went: every row of `requests`, in its place.

The topic has all that a job decides by: what clients asked, the clock's ticks, interventions. Its
rows in their order, each at the time that the cell took it to have come, give the answers that the
job gave; nothing has to be searched for. Two kinds of job are decided as any recording is: with
several cells, and where the topic's beginning is gone, by retention.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import Row, read_all
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.plan import Plan
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.replay.schedule import in_order_of_arrival
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Refusal, decode_event
from brokertwin.state.core.outputs import RECORDS, Output, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings

_encoder = msgspec.json.Encoder()


class Given(NamedTuple):
    """What a job's only cell was given.

    Attributes:
        placed: its cluster.
        documents: the events, each at the cell's time.
        positions: where each lies in the topic.
    """

    placed: Placement
    documents: list[bytes]
    positions: list[Position]


def given(client: ClientProperties, prefix: str, cluster: str | None) -> Given | str:
    """Read what a job was given; the reason, as a clause, where it is not all there.

    Args:
        client: how to reach Kafka.
        prefix: of the job's topics.
        cluster: one of its clusters; None where it has but one.

    Raises:
        UserError: no job has run with this prefix, or Kafka does not answer.
    """
    placements = placement.read(client, prefix)
    placed = placements.get(cluster or next(iter(placements)))
    if placed is None:
        return f"it has no cluster {cluster}"
    if len(placed.cells) > 1:
        return f"{placed.cluster} has {len(placed.cells)} cells"
    key, partition = placed.cells[0].encode(), placed.partition_of(placed.cells[0])
    rows = [
        row for row in read_all(client, full_name(prefix, REQUESTS)) if row.partition == partition
    ]
    if rows and rows[0].offset > 0:
        return f"the first {rows[0].offset:,} events are no longer in its topic"
    mine = [row for row in rows if row.key == key]
    positions = [Position(row.partition, row.offset) for row in mine]
    return Given(placed, list(_at_the_cells_time(mine, placed)), positions)


def _at_the_cells_time(rows: Iterable[Row], placed: Placement) -> Iterable[bytes]:
    for row in rows:
        document = row.value or b""
        event = decode_event(document)
        if not isinstance(event, Refusal):
            time = placed.time_of(event.time, row.timestamp)
            if time != event.time:
                document = _encoder.encode(msgspec.structs.replace(event, time=time))
        yield document


def plan(
    was: Given,
    exchanges: Sequence[Exchange],
    broker_settings: BrokerSettings,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Plan:
    """What the job's cell decides of its events: their answers are those of the plan's schedule.

    Args:
        was: what the job was given.
        exchanges: the job's requests and answers.
        broker_settings: of its brokers.
        on_progress: called with the number of events that are decided.
    """
    settings = settings_of(was.placed, broker_settings)
    schedule, cell = in_order_of_arrival(exchanges), Cell(settings)
    schedule.answers = local.run(was.documents, settings, on_progress, cell=cell)
    return Plan(schedule, [], was.documents, settings, None, cell)


def records(
    was: Given,
    broker_settings: BrokerSettings,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Output]:
    """The rows that the job has written to its topic `records`, or would have.

    Args:
        was: what the job was given.
        broker_settings: of its brokers.
        on_progress: called with the number of events that are decided.
    """
    cell = Cell(settings_of(was.placed, broker_settings))
    decided = zip(was.documents, was.positions, strict=True)
    for number, (document, position) in enumerate(decided, 1):
        yield from (row for row in cell.handle(document, position) if row.topic == RECORDS)
        on_progress(number)


def settings_of(placed: Placement, broker_settings: BrokerSettings) -> CellSettings:
    """Those of the cluster's only cell, whose events have the times at which it took them."""
    return CellSettings(
        name=placed.cells[0],
        cluster=placed.cluster,
        brokers=placed.brokers,
        broker_settings=broker_settings,
        event_time="recorded",
        requests_partitions=placed.requests_partitions,
        responses_partitions=placed.responses_partitions,
        may_hold=placed.event_time == "recorded",
        may_intervene=placed.interventions,
        may_clean=placed.event_time != "recorded",
    )
