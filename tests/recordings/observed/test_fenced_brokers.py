"""A real cluster of which two brokers are fenced in turn while clients work."""

from collections.abc import Sequence

import pytest

from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import DifferenceCause
from brokertwin.recordings.observed.watching import ObservedReplication, watch
from tests.support.fenced_brokers import LAG_TIME_MAX_MS, MIN_ISR, fenced_cluster
from tests.support.observed import agreed

pytestmark = pytest.mark.kafka

FENCED = 2, 3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Sequence[RecordedExchange]:
    """The exchanges in the logs of all brokers; preferred leaders are elected after each return."""
    with fenced_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        for broker in FENCED:
            cluster.fence(broker)
            cluster.elect()
    reading = FileReading()
    return watch(lambda s: read_files(cluster.logs, reading, s)).replication.exchanges


def observed(exchanges: Sequence[RecordedExchange]) -> ObservedReplication:
    known = KnownFacts(min_isr={"": MIN_ISR}, lag_time_max_ms=LAG_TIME_MAX_MS, takes_all=True)
    found = ObservedReplication(exchanges, known)
    assert [each for each in found.differences if each.why is DifferenceCause.UNEXPLAINED] == []
    assert [each for each in found.isr_changes if each.why] == []
    assert agreed(found) > 10 * len(found.differences)
    return found


def test_fenced_brokers_leave_no_high_watermark_unexplained(
    recorded: Sequence[RecordedExchange],
) -> None:
    found = observed(recorded)
    assert found.missing == []
    shrunk = {broker for each in found.isr_samples for broker in FENCED if broker not in each.isr}
    assert shrunk == {*FENCED}


@pytest.mark.parametrize(
    ("broker", "missing"),
    [(1, ["broker 1", "the controller"]), (2, ["broker 2"]), (3, ["broker 3"])],
)
def test_missing_log_leaves_facts_unknown(
    broker: int, missing: list[str], recorded: Sequence[RecordedExchange]
) -> None:
    found = observed([each for each in recorded if each.line.broker != broker])
    assert found.missing == missing
