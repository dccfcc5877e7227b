"""Replays a job from every row of its topic `requests`.

The topic has all inputs of a job: requests, ticks and interventions. Its rows in order, each at the
time that the cell used, give the job's responses, so no search is needed. Jobs with several cells,
or whose topic has lost its beginning, are replayed like other recordings.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import TopicRow, read_all
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.plan import ReplayPlan
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.replay.schedule import in_order_of_arrival
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Refusal, decode_event
from brokertwin.state.core.outputs import RECORDS, Output, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings

_encoder = msgspec.json.Encoder()


class JobChoices(NamedTuple):
    """The inputs of a job's only cell.

    Attributes:
        documents: the events, each at the cell's time.
        positions: the position of each in the topic.
    """

    placed: Placement
    documents: list[bytes]
    positions: list[Position]


def given(client: ClientProperties, prefix: str, cluster: str | None) -> JobChoices | str:
    """Read the inputs of a job, or return a reason if they are incomplete.

    Args:
        client: the connection to Kafka.
        prefix: the job's topic prefix.
        cluster: one of its clusters; None if it has only one.

    Raises:
        UserError: no job has used this prefix, or Kafka does not respond.
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
    positions = [row.position for row in mine]
    return JobChoices(placed, list(_at_the_cells_time(mine, placed)), positions)


def _at_the_cells_time(rows: Iterable[TopicRow], placed: Placement) -> Iterable[bytes]:
    for row in rows:
        document = row.value or b""
        event = decode_event(document)
        if not isinstance(event, Refusal):
            time = placed.time_of(event.time, row.timestamp)
            if time != event.time:
                document = _encoder.encode(msgspec.structs.replace(event, time=time))
        yield document


def plan(
    inputs: JobChoices,
    exchanges: Sequence[Exchange],
    broker_settings: BrokerSettings,
    on_progress: Callable[[int], None] = lambda _: None,
) -> ReplayPlan:
    """Run the job's events; the schedule has the responses.

    Args:
        inputs: the inputs of the job.
        exchanges: the job's requests and responses.
        broker_settings: of its brokers.
        on_progress: called with the number of processed events.
    """
    settings = settings_of(inputs.placed, broker_settings)
    schedule, cell = in_order_of_arrival(exchanges), Cell(settings)
    schedule.responses = local.run(inputs.documents, settings, on_progress, cell=cell)
    return ReplayPlan(schedule, [], inputs.documents, settings, None, cell)


def records(
    inputs: JobChoices,
    broker_settings: BrokerSettings,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Output]:
    """Yield the rows of the job's topic `records`, written or not.

    `on_progress`: called with the number of processed events.
    """
    cell = Cell(settings_of(inputs.placed, broker_settings))
    decided = zip(inputs.documents, inputs.positions, strict=True)
    for number, (document, position) in enumerate(decided, 1):
        yield from (row for row in cell.handle(document, position) if row.topic == RECORDS)
        on_progress(number)


def settings_of(placed: Placement, broker_settings: BrokerSettings) -> CellSettings:
    """Settings of the only cell, with the times at which it handled events."""
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
