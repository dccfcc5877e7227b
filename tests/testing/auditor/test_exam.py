"""Runs of small clients under faults, against a broker in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.faults.fault import FaultSpec
from brokertwin.testing import KafkaBroker
from brokertwin.testing.auditor.exam import Exam, error_in
from brokertwin.testing.auditor.plans import faults_of
from brokertwin.testing.auditor.workload import WorkKind
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT

PRODUCER = """
import os
from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": os.environ["EXAM_BOOTSTRAP"], "enable.idempotence": True})
for number in range(int(os.environ["EXAM_COUNT"])):
    value = f"{os.environ['EXAM_NAME']}-{number}"
    producer.produce(os.environ["EXAM_TOPIC"], value, partition=number % 3)
    assert producer.flush(30) == 0
    print("acked", value)
"""

LIAR = """
import os
for number in range(int(os.environ["EXAM_COUNT"])):
    print("acked", f"{os.environ['EXAM_NAME']}-{number}")
"""

LOST = FaultSpec(effect="lose", api="PRODUCE", nth=2)


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


def exam(
    broker: KafkaBroker, *words: str, works: tuple[WorkKind, ...] = (WorkKind.PRODUCE,)
) -> Exam:
    return Exam(broker.bootstrap, words, works, 4, PATIENCE_S)


def test_a_producer_that_retries_after_a_lost_response_keeps_its_promises(
    broker: KafkaBroker,
) -> None:
    verdict = exam(broker, sys.executable, "-c", PRODUCER).run([LOST])
    assert verdict.violations == []
    assert (verdict.hits, verdict.gave_up) == (1, {})


def test_a_client_that_acknowledges_what_it_never_sent_is_accused(broker: KafkaBroker) -> None:
    verdict = exam(broker, sys.executable, "-c", LIAR).run([LOST])
    assert [each.promise for each in verdict.violations] == ["records"] * 4
    assert "producer-0 was acknowledged at -1, and is lost" in verdict.violations[0].text


def test_a_process_that_does_not_end_is_killed_and_reported(broker: KafkaBroker) -> None:
    sleeps = exam(broker, sys.executable, "-c", f"{LIAR}\nimport time; time.sleep(600)")
    verdict = sleeps._replace(timeout_s=1.0).run([])
    assert "producer did not end in time" in [each.text for each in verdict.violations]
    assert verdict.gave_up == {}


def test_a_command_that_does_not_exist_is_named(broker: KafkaBroker) -> None:
    with pytest.raises(UserError, match="Cannot start no-such-adapter"):
        exam(broker, "no-such-adapter").run([])


def test_the_error_of_a_process_is_the_last_line_that_names_one() -> None:
    assert (
        error_in("Traceback\nKafkaError: no coordinator\nclosing\n") == "KafkaError: no coordinator"
    )
    assert error_in("stopped\n") == "stopped"
    assert error_in("") == "no message"


ADAPTERS = ROOT / "examples" / "exam_client"


@pytest.mark.clients
@pytest.mark.parametrize(
    ("name", "works"),
    [("confluent", tuple(WorkKind)), ("kafka_python", tuple(WorkKind)[:3])],
)
def test_real_clients_keep_all_promises_under_a_plan(
    broker: KafkaBroker, name: str, works: tuple[WorkKind, ...]
) -> None:
    real = exam(broker, sys.executable, str(ADAPTERS / f"{name}.py"), works=works)
    verdict = real._replace(records=200).run(faults_of(1))
    assert verdict.violations == []
    assert verdict.hits > 0
    assert verdict.fenced == 1


@pytest.mark.clients
def test_a_processor_that_copies_aborted_records_is_accused(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    text = (ADAPTERS / "confluent.py").read_text()
    assert "read_committed" in text
    careless = tmp_path / "careless.py"
    careless.write_text(text.replace("read_committed", "read_uncommitted"))
    works = (WorkKind.PRODUCE, WorkKind.TRANSACT, WorkKind.PROCESS)
    planted = exam(broker, sys.executable, str(careless), works=works)
    verdict = planted._replace(records=60).run([])
    assert {each.promise for each in verdict.violations} == {"processing"}
    assert "but not visible in the input" in verdict.violations[0].text
