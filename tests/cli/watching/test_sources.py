"""A job's status comes from its progress; its state is read on request and not too often."""

import threading
from pathlib import Path

from brokertwin.cli.watching.rates import RATE_WINDOW_S, Rate
from brokertwin.cli.watching.sources import REST, REST_LEAST_S, JobSource, StateReader
from brokertwin.cli.watching.status import POINTS_MAX, Phase
from brokertwin.errors import UserError
from brokertwin.state.fetch.fetch_session_counts import CacheCounts
from brokertwin.streaming.job.measures import QueryProgress
from brokertwin.streaming.job.tallies import Tallies
from brokertwin.tables.stored_states import Cells


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(batch: int) -> QueryProgress:
    tallies = Tallies({"FETCH": 3}, {"FETCH": {"OFFSET_OUT_OF_RANGE": 1}}, {"not JSON": 2})
    counts = {"requests": 10, "responses": 9}
    return QueryProgress(batch, 10, 0.5, 17, counts, 2000, CacheCounts(1, 30, 4), tallies)


def test_a_jobs_document_has_its_reported_progress(tmp_path: Path) -> None:
    ending = threading.Event()
    source = JobSource("shop", tmp_path, ending)
    assert (source.status().phase, source.status().state) == (Phase.STARTING, None)
    source.pulse.beat()
    for batch in range(POINTS_MAX + 5):
        source.observe(progress(batch))
    status = source.status()
    assert status.job is not None
    assert (status.phase, status.job.batch, status.job.lag) == (Phase.RUNNING, 124, 17)
    assert status.errors == {"FETCH": {"OFFSET_OUT_OF_RANGE": 1}}
    assert status.job.dead_letters == {"not JSON": 2}
    assert status.job.fetch_session_partitions == 30
    assert len(status.points) == POINTS_MAX
    assert "not a checkpoint" in status.state_failure, "there is none in this directory"
    ending.set()
    assert source.status().phase is Phase.STOPPING


def test_a_state_is_read_once_a_version_and_then_there_is_rest() -> None:
    clock, reads, version = Clock(), [], [0]

    def read() -> Cells:
        reads.append(clock.now)
        clock.now += 2.0
        return {}

    reader = StateReader(read, lambda: version[0], clock)
    first = reader.newest()
    assert first[0] is not None
    clock.now += 1000
    assert reader.newest() == first
    assert len(reads) == 1, "the version is the same"
    version[0] = 1
    reader.newest()
    version[0] = 2
    clock.now += REST * 2.0 - 0.1
    reader.newest()
    assert len(reads) == 2, "it took two seconds: forty of rest"
    clock.now += 0.2
    reader.newest()
    assert len(reads) == 3


def test_what_cannot_be_read_leaves_the_former_state_and_a_reason() -> None:
    clock = Clock()
    failures = iter([False, True, False])

    def read() -> Cells:
        if next(failures):
            raise UserError("gone")
        return {}

    reader = StateReader(read, None, clock)
    held, when, failure = reader.newest()
    assert failure == ""
    clock.now += REST_LEAST_S + 0.1
    assert reader.newest() == (held, when, "gone")
    clock.now += REST_LEAST_S + 0.1
    assert reader.newest()[2] == ""


def test_a_rate_is_of_the_last_seconds() -> None:
    clock = Clock()
    rate = Rate(clock)
    assert rate.value() == 0
    rate.add(100, 2.0)
    assert rate.value() == 50
    clock.now += 2.0
    rate.add(100, 2.0)
    assert rate.value() == 50
    clock.now += RATE_WINDOW_S - 1.0
    assert rate.value() == 100 / (RATE_WINDOW_S - 1.0 + 2.0)
    clock.now += 2.0
    assert rate.value() == 0
