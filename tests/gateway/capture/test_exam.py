"""The proxy is transparent: the exam's scenarios pass through it.

Their goldens are Apache Kafka's responses; behind the proxy is a gateway with the local engine.
"""

from pathlib import Path

from brokertwin.testing.exam.examination import examine
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.site import look
from brokertwin.testing.exam.verdicts import Outcome
from tests.support.gateways import running_gateway
from tests.support.proxies import capturing

NAMES = ("fetch_session_", "idem_", "bad_size", "bad_key", "bad_version", "bad_truncated")
NAMES += ("bad_incomplete", "pipelined")
SETTINGS = {"auto.create.topics.enable": "true"}


def test_scenarios_get_kafkas_responses_through_the_proxy(tmp_path: Path) -> None:
    with (
        running_gateway(SETTINGS) as gateway,
        capturing(gateway.bootstrap, tmp_path / "recorded.jsonl") as capture,
    ):
        results = examine(list(selected(NAMES)), look(capture.first, ()))
    assert {each.scenario: each.deviations for each in results if each.deviations} == {}
    assert {each.outcome for each in results} == {Outcome.AGREES}
    assert len(results) > 70
    assert capture.lost.total() == 0
    assert len(capture.documents()) == capture.proxy.counts.exchanges
