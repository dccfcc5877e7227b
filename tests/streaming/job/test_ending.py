"""When a query has ended: a planned batch commits first, and one that looks for news is left."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from brokertwin.streaming.job import runner
from brokertwin.streaming.job.runner import POLL_S, SLEEPING_POLLS, UNPLANNED_POLLS, finish

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 60.0
LAST = 7


class State:
    """One of Spark's states of a query."""

    def equals(self, other: "State") -> bool:
        return other is self


ACTIVE, TERMINATED = State(), State()
OBJECTS = {
    f"{name}$": SimpleNamespace(**{"MODULE$": state})
    for name, state in (("ACTIVE", ACTIVE), ("TERMINATED", TERMINATED))
}
PACKAGE = "org.apache.spark.sql.execution.streaming.runtime"
JVM = SimpleNamespace(**{PACKAGE: SimpleNamespace(**OBJECTS)})


class Query:
    """What `finish` sees of a query, and a clock that goes on by its sleeps.

    Attributes:
        polls: how often it was looked at.
        is_alive: whether its thread runs.
        is_triggered: whether it looks for news or works on a batch, not between two.
        has_job: whether a Spark job of it runs; one of another query always does.
        happens: by the number of a poll what happens then.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.polls = 0
        self.is_alive = self.is_triggered = self.has_job = True
        self.runId = "this run"
        self.happens: dict[int, Callable[[], None]] = {}
        self.state = ACTIVE
        self._jsq = self
        for batch in range(LAST + 1):
            self.plan(batch)
            self.commit(batch)

    def plan(self, batch: int) -> None:
        self._write("offsets", batch)

    def commit(self, batch: int) -> None:
        self._write("commits", batch)

    def _write(self, log: str, batch: int) -> None:
        (self.checkpoint / log).mkdir(parents=True, exist_ok=True)
        (self.checkpoint / log / str(batch)).touch()

    def end(self) -> None:
        self.is_alive = False

    def sleep(self, seconds: float) -> None:
        assert seconds == POLL_S
        self.polls += 1
        self.happens.get(self.polls, lambda: None)()

    def monotonic(self) -> float:
        return self.polls * POLL_S

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": self.is_triggered}

    def streamingQuery(self) -> Any:  # noqa: N802 (Spark's name)
        def exchange(expected: State, new: State) -> None:
            self.state = new if self.state is expected else self.state

        state = SimpleNamespace(compareAndSet=exchange, get=lambda: self.state)
        thread = SimpleNamespace(isAlive=lambda: self.is_alive)
        of_class = SimpleNamespace(getPackageName=lambda: PACKAGE)
        return SimpleNamespace(
            queryExecutionThread=lambda: thread, state=lambda: state, getClass=lambda: of_class
        )

    def statusTracker(self) -> Any:  # noqa: N802 (Spark's name)
        """The jobs of the session, whose context it is as well."""
        jobs = {self.runId: [1, 2]}
        return SimpleNamespace(
            getJobIdsForGroup=jobs.get, getActiveJobsIds=lambda: [2, 3] if self.has_job else [3]
        )

    def finish(self, timeout_s: float = PATIENCE_S) -> bool:
        return finish(cast("StreamingQuery", self), timeout_s, self.checkpoint)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    """A query that has committed its planned batch and polls."""
    made = Query(tmp_path)
    monkeypatch.setattr("pyspark.SparkContext._jvm", JVM)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", made)
    monkeypatch.setattr(runner, "time", made)
    return made


def test_a_query_blocked_on_an_unavailable_kafka_is_not_awaited(query: Query) -> None:
    """It looks for news for minutes; no batch is planned, so it may be stopped."""
    query.has_job = False
    assert query.finish()
    assert query.polls == UNPLANNED_POLLS


def test_a_batch_without_a_job_is_not_stopped(query: Query) -> None:
    """Spark would interrupt it: the planned batch would not commit."""
    states = []
    query.has_job = False
    query.plan(LAST + 1)

    def begin() -> None:
        states.append(query.state)
        query.has_job = True

    query.happens[5] = begin
    query.happens[7] = lambda: states.append(query.state)
    query.happens[9] = query.end
    assert query.finish()
    assert states == [ACTIVE, TERMINATED]


def test_a_planned_batch_commits_first(query: Query) -> None:
    query.plan(LAST + 1)
    query.happens[2 * UNPLANNED_POLLS] = lambda: query.commit(LAST + 1)
    query.happens[2 * UNPLANNED_POLLS + 1] = query.end
    assert query.finish()
    assert query.polls == 2 * UNPLANNED_POLLS + 1


def test_a_newly_planned_batch_is_awaited(query: Query) -> None:
    late = UNPLANNED_POLLS - 1
    query.happens[late] = lambda: query.plan(LAST + 1)
    query.happens[late + 5] = lambda: query.commit(LAST + 1)
    query.happens[late + 15] = query.end
    assert query.finish()
    assert query.polls == late + 15


def test_a_batch_beyond_the_timeout_is_not_stopped(query: Query) -> None:
    query.plan(LAST + 1)
    assert not query.finish(5.0)
    assert query.monotonic() == 5.0


def test_a_query_between_batches_may_be_stopped(query: Query) -> None:
    query.is_triggered = False
    assert query.finish()
    assert query.polls == SLEEPING_POLLS


def test_an_inactive_query_is_not_between_batches(query: Query) -> None:
    query.is_triggered, query.state = False, State()
    query.happens[10] = lambda: setattr(query, "state", ACTIVE)
    assert query.finish()
    assert query.polls == 10 + SLEEPING_POLLS
