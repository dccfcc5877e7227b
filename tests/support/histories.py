"""Histories: sequences of events that a cluster could see, good and bad ones mixed.

A weighted state machine generates a history event by event. It hands each event to a model cell
and reads the responses (`tests/support/generated_clients.py`). Later requests are therefore mostly
right (members in their generation, producers in their epoch, sessions at theirs) and sometimes
wrong. A history depends only on some bytes for each event and on the settings:

    histories()         a strategy of documents for a cell of one broker
    stories()           a strategy of documents with the settings of their cell: 1 to 3 brokers
    seeded(n)           the nth of the stories that need no hypothesis
    observing(listen)   listens during generation, which saves a second decision of the events

Hypothesis makes a history smaller by leaving out events, and simpler by making bytes 0: the first
choice everywhere, which is a right one. Where all bytes of an event are 0, there is none.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.replication.preferred_replica import RACK_AWARE
from tests.support.generated_clients import CLUSTER, START, Choice, Clients
from tests.support.generated_consumers import CONSUMER_OPENINGS, CONSUMER_REQUESTS
from tests.support.generated_controllers import CONTROLLER_REQUESTS
from tests.support.generated_requests import OPENINGS, REQUESTS, Generate, RequestGenerator
from tests.support.generated_share_groups import SHARE_OPENINGS, SHARE_REQUESTS
from tests.support.generated_streams_groups import STREAMS_OPENINGS, STREAMS_REQUESTS
from tests.support.generated_tokens import TOKEN_REQUESTS

__all__ = ["CLUSTER", "START", "Story", "generate", "histories", "observing", "seeded", "stories"]

BYTES = 12
"""For one event, and for the opening: more choices than these bytes hold are the first one."""

PAUSES = [0, 1, 20, 300, 0, 1, 20, 50, 120, 0] * 20 + [7_000, 45_000, 660_000, 9 * 10**7, 7 * 10**8]
"""Time between two events in ms: mostly little, at times enough for something to expire."""

_ALL_OPENINGS = [*OPENINGS, *CONSUMER_OPENINGS, *SHARE_OPENINGS, *STREAMS_OPENINGS]
_ALL_REQUESTS: list[tuple[int, Generate]] = [
    *REQUESTS,
    *CONSUMER_REQUESTS,
    *SHARE_REQUESTS,
    *STREAMS_REQUESTS,
    *CONTROLLER_REQUESTS,
    *TOKEN_REQUESTS,
]

_TOTALS: list[int] = []
for _weight, _ in _ALL_REQUESTS:
    _TOTALS.append((_TOTALS[-1] if _TOTALS else 0) + _weight)


class Story(NamedTuple):
    """Documents of events in order, and the settings of the cell that they are for."""

    settings: CellSettings
    documents: list[bytes]


ONE_BROKER = CellSettings(name=CLUSTER, cluster=CLUSTER, event_time="recorded")
"""A cell with Kafka's defaults."""


def generated_settings(choice: Choice, brokers: int | None = None) -> CellSettings:
    """Settings of a small cluster: few partitions of internal topics, now and then rare modes."""
    count = choice.below(3) + 1 if brokers is None else brokers
    has_authorizer = choice.one_in(4)
    return CellSettings(
        name=CLUSTER,
        cluster=CLUSTER,
        brokers=[1, 2, 3][:count],
        event_time="recorded",
        may_intervene=True,
        may_clean=True,
        broker_settings=BrokerSettings(
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            if has_authorizer
            else "",
            allow_everyone_if_no_acl_found=has_authorizer,
            super_users="User:ANONYMOUS",
            brokertwin_zk_producer_id_blocks=choice.one_in(6),
            brokertwin_reject_unknown_producer=choice.one_in(6),
            brokertwin_transaction_version=choice.of([2, 2, 1]),
            group_initial_rebalance_delay_ms=choice.of([0, 3000]),
            group_max_size=choice.of([100, 100, 2]),
            group_consumer_assignment_interval_ms=choice.of([1000, 0]),
            group_consumer_max_size=choice.of([100, 100, 2]),
            max_incremental_fetch_session_cache_slots=choice.of([1000, 8]),
            offsets_topic_num_partitions=2,
            # pauses are of days
            transaction_abort_timed_out_transaction_cleanup_interval_ms=600_000,
            transaction_state_log_num_partitions=2,
            brokertwin_trace_replication=choice.one_in(6),
            brokertwin_isr_by_time_only=choice.one_in(6),
            brokertwin_leader_and_isr=choice.one_in(6),
            num_replica_fetchers=choice.of([1, 4]),
            replica_selector_class=choice.of([None, RACK_AWARE]),
            brokertwin_broker_racks=choice.of([(), ("1:east", "2:west", "3:west")]),
            log_dirs=choice.of([(), ("/disk-1", "/disk-2", "/disk-3")]),
            brokertwin_internal_logs=choice.one_in(3),
            transaction_partition_verification_enable=not choice.one_in(4),
        ),
    )


def generate(settings: CellSettings, opening: bytes, events: list[bytes]) -> list[bytes]:
    """Documents encoded by the bytes, in a cell of these settings."""
    clients = Clients(settings)
    choice = Choice(opening)
    for begin in choice.of(_ALL_OPENINGS):
        begin(RequestGenerator(clients, choice))
    for event in filter(any, events):
        choice = Choice(event)
        _request(choice)(RequestGenerator(clients, choice))
        clients.now += choice.of(PAUSES)
    return clients.documents


def _request(choice: Choice) -> Generate:
    number = choice.below(_TOTALS[-1])
    place = next(i for i, total in enumerate(_TOTALS) if number < total)
    return _ALL_REQUESTS[place][1]


def _events(min_size: int, max_size: int) -> st.SearchStrategy[list[bytes]]:
    piece = st.binary(min_size=BYTES, max_size=BYTES)
    return st.lists(piece, min_size=min_size, max_size=max_size)


def histories(max_size: int = 40) -> st.SearchStrategy[list[bytes]]:
    """Documents for a cell of broker 1 with any settings, without interventions."""
    opening = st.binary(min_size=BYTES, max_size=BYTES)
    return st.builds(lambda a, b: generate(ONE_BROKER, a, b), opening, _events(1, max_size))


def stories(min_size: int = 50, max_size: int = 200) -> st.SearchStrategy[Story]:
    """Histories with the settings of their cell, long ones: hypothesis likes short lists."""
    settings = st.binary(min_size=BYTES, max_size=BYTES).map(
        lambda b: generated_settings(Choice(b))
    )
    opening = st.binary(min_size=BYTES, max_size=BYTES)
    return st.builds(
        lambda s, a, b: Story(s, generate(s, a, b)), settings, opening, _events(min_size, max_size)
    )


@contextmanager
def observing(listen: Callable[[Cell, bytes, list[Output]], None]) -> Iterator[None]:
    """Within this context `listen` is called with each decided event: cell, event, rows.

    This includes the model cell that generates a history.
    """
    handle = Cell.handle

    def handled(cell: Cell, document: bytes, position: Position) -> list[Output]:
        rows = handle(cell, document, position)
        listen(cell, document, rows)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cell, "handle", handled)
        yield


def seeded(seed: int, size: int = 100) -> Story:
    """A story of `size` events behind its opening; the same for each seed, for ever."""
    source = random.Random(seed)
    settings = generated_settings(Choice(source.randbytes(BYTES)))
    events = [source.randbytes(BYTES) for _ in range(size)]
    return Story(settings, generate(settings, source.randbytes(BYTES), events))
