"""Runs of small clients under faults, against a broker in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import FaultSpec
from brokertwin.testing import KafkaBroker
from brokertwin.testing.auditor.exam import Exam, error_in, examined_broker
from brokertwin.testing.auditor.logs import ClusterLogs
from brokertwin.testing.auditor.plans import faults_of
from brokertwin.testing.auditor.workload import MEMBERS, RunNames, WorkKind
from brokertwin.testing.auditor.workload import PRODUCER as PRODUCER_ROLE
from brokertwin.testing.exam.site import look
from tests.support.kafka_tools import java_command
from tests.support.patience import PATIENCE_S, growing
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


def test_without_an_address_a_gateway_is_examined(broker: KafkaBroker) -> None:
    with examined_broker(None, None, is_checked=False) as own:
        assert own != broker.bootstrap
        host, _, port = own.partition(":")
        assert look(Address(host, int(port)), []).brokers
    host, _, port = broker.bootstrap.partition(":")
    given = broker.bootstrap, Address(host, int(port))
    with examined_broker(*given, is_checked=False) as address:
        assert address == broker.bootstrap
    broker.create_topic("orders")
    with pytest.raises(UserError, match="--yes"), examined_broker(*given, is_checked=False):
        pass


def test_a_client_that_acknowledges_what_it_never_sent_is_accused(broker: KafkaBroker) -> None:
    verdict = exam(broker, sys.executable, "-c", LIAR).run([LOST])
    assert [each.promise for each in verdict.violations] == ["records"] * 4
    assert "producer-0 was acknowledged, but is not in the log" in verdict.violations[0].text


@pytest.mark.parametrize("stuck", [PRODUCER_ROLE.name, MEMBERS[1].name])
def test_a_process_that_does_not_finish_is_killed_and_not_accused(
    broker: KafkaBroker, stuck: str
) -> None:
    sleep = f"import time; os.environ['EXAM_NAME'] == '{stuck}' and time.sleep(600)"
    works = (WorkKind.PRODUCE, WorkKind.CONSUME)
    client = exam(broker, sys.executable, "-c", f"import os\n{sleep}\n{PRODUCER}", works=works)
    for timeout_s in growing(1.0):
        verdict = client._replace(timeout_s=timeout_s).run([])
        assert (verdict.violations, verdict.gave_up) == ([], {})
        if f"{stuck} did not finish in time" in verdict.unfinished:
            return
    raise AssertionError(verdict.unfinished)


def test_clients_that_a_script_wraps_end_with_it(broker: KafkaBroker) -> None:
    """The output of a process has no end while a child has it."""
    works = (WorkKind.PRODUCE, WorkKind.CONSUME)
    member = 'case "$EXAM_NAME" in member*) sleep 600; exit 0;; esac'
    words = ("sh", "-c", f'{member}\n{sys.executable} -c "$0"\nexit 0', PRODUCER)
    verdict = exam(broker, *words, works=works)._replace(timeout_s=1.0).run([])
    assert verdict.gave_up == {}


@pytest.mark.parametrize(
    ("script", "text"),
    [("exit 143", None), ("exit 7", "exit code 7"), ("kill -SEGV $$", "exit code -11")],
)
def test_a_process_that_ends_by_sigterm_has_not_given_up(
    broker: KafkaBroker, script: str, text: str | None
) -> None:
    """143 is the exit code of a JVM that gets SIGTERM before the adapter can handle it."""
    verdict = exam(broker, "sh", "-c", script).run([])
    assert verdict.gave_up == ({} if text is None else {PRODUCER_ROLE.name: text})


def test_a_command_that_does_not_exist_is_named(broker: KafkaBroker) -> None:
    with pytest.raises(UserError, match="Cannot start no-such-adapter"):
        exam(broker, "no-such-adapter").run([])


def test_a_topic_that_cannot_be_created_is_named(broker: KafkaBroker) -> None:
    names = RunNames("orders", "output", "billing", "x")
    with ClusterLogs(broker.bootstrap, names), pytest.raises(UserError, match="topic orders"):
        ClusterLogs(broker.bootstrap, names).__enter__()


def test_a_share_group_that_cannot_be_set_is_named(broker: KafkaBroker) -> None:
    logs = ClusterLogs(broker.bootstrap, RunNames("orders", "output", "billing", "x"))
    broker.fail_next("INCREMENTAL_ALTER_CONFIGS", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(UserError, match=r"billing-share: .*authorization failed"):
        logs.set_share_group()


def test_the_error_of_a_process_is_the_last_line_that_names_one() -> None:
    assert (
        error_in("Traceback\nKafkaError: no coordinator\nclosing\n") == "KafkaError: no coordinator"
    )
    java = "IllegalStateException: closed\n\tat org.apache.kafka.common.errors.Wakeup\n\tat Main\n"
    assert error_in(java) == "IllegalStateException: closed"
    assert error_in("stopped\n") == "stopped"
    assert error_in("") == ""


ADAPTERS = ROOT / "examples" / "exam_client"


@pytest.mark.clients
@pytest.mark.parametrize(
    ("name", "works"),
    [("confluent", tuple(WorkKind)[:4]), ("kafka_python", tuple(WorkKind)[:3])],
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
def test_a_share_consumer_that_repeats_lost_acknowledgements_keeps_its_promises(
    broker: KafkaBroker,
) -> None:
    java = [*java_command(), "-Dlog4j2.level=OFF", str(ADAPTERS / "Adapter.java")]
    real = exam(broker, *java, works=(WorkKind.PRODUCE, WorkKind.SHARE))
    verdict = real._replace(records=100).run([FaultSpec(effect="lose", api="SHARE_ACKNOWLEDGE")])
    assert (verdict.violations, verdict.unfinished, verdict.gave_up) == ([], [], {})
    assert verdict.hits == 1


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
