"""The proxy is transparent: scenarios of the exam pass through it.

Their goldens are Apache Kafka's responses; behind the proxy is a gateway with the local engine.
"""

from pathlib import Path

from brokertwin.testing.exam.verdicts import Outcome
from tests.exam.record import SETTINGS
from tests.support.exams import deviating, examined
from tests.support.gateways import running_gateway
from tests.support.proxies import capturing

SUBJECTS = ("fetch_session", "idem_", "bad_")


def test_scenarios_get_kafkas_responses_through_the_proxy(tmp_path: Path) -> None:
    with (
        running_gateway(SETTINGS) as gateway,
        capturing(gateway.bootstrap, tmp_path / "recorded.jsonl") as capture,
    ):
        results = examined(capture.first, *SUBJECTS)
    assert deviating(results) == {}
    assert sum(each.outcome is Outcome.AGREES for each in results) > 100
    assert capture.lost.total() == 0
    assert len(capture.documents()) == capture.proxy.counts.exchanges
