"""The pytest plugin in separate pytest runs, and the examples of docs/testing.md."""

import re
import subprocess
import sys

import pytest
import yaml

import brokertwin
from tests.support.sources import ROOT

pytest_plugins = ("pytester",)

DOCUMENT = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


@pytest.mark.processes
def test_the_examples_of_the_documents_pass(pytester: pytest.Pytester) -> None:
    """Without the warnings that kafka-python causes on some versions of Python."""
    tutorial = (ROOT / "docs" / "tutorials" / "test-a-client.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", tutorial + DOCUMENT, re.DOTALL)
    assert len(examples) == 4
    for number, example in enumerate(examples):
        pytester.makepyfile(**{f"test_example_{number}": example})
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=4, warnings=0)


@pytest.mark.processes
def test_the_example_for_ci_runs_the_tests_and_writes_its_report(
    pytester: pytest.Pytester,
) -> None:
    steps = yaml.safe_load((ROOT / "examples/pytest_in_ci.yml").read_text())["jobs"]["tests"][
        "steps"
    ]
    install, test = (step["run"].split() for step in steps if "run" in step)
    assert f"brokertwin-{brokertwin.__version__}-py3-none-any.whl" in install
    assert {"pytest", "pytest-timeout"} <= set(install), "--timeout is an option of the plugin"
    pytester.makepyfile(
        "def test_it(kafka_broker):\n    assert kafka_broker.produce('a', 'b') == 0"
    )
    assert test[0] == "pytest"
    pytester.runpytest_subprocess(*test[1:]).assert_outcomes(passed=1)
    assert (pytester.path / steps[-1]["with"]["report_paths"]).is_file()


def test_the_document_names_every_method() -> None:
    from brokertwin.testing import KafkaBroker

    verbs = {name for name in vars(KafkaBroker) if not name.startswith("_")}
    missing = {verb for verb in verbs if f"`{verb}" not in DOCUMENT and f"{verb}(" not in DOCUMENT}
    assert missing - {"start", "close", "lose_answer"} == set()  # the last is a former name


@pytest.mark.processes
def test_the_nearest_marker_wins_argument_by_argument(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka_broker(brokers=3, topics=["outer"])

        @pytest.mark.kafka_broker(topics={"inner": 2})
        class TestInner:
            def test_class(self, kafka_broker):
                assert len(kafka_broker.bootstrap_servers) == 3
                assert kafka_broker.leader("inner", 1)

            @pytest.mark.kafka_broker(brokers=2)
            def test_function(self, kafka_broker):
                assert len(kafka_broker.bootstrap_servers) == 2
                assert kafka_broker.leader("inner", 1)

        def test_module(kafka_broker):
            assert kafka_broker.leader("outer")
        """
    )
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=3)


@pytest.mark.processes
def test_an_invalid_marker_is_explained(pytester: pytest.Pytester) -> None:
    messages = {
        "kafka_broker(3)": "*of kafka_broker: 3; it takes brokers=*, topics=*, config=*",
        "kafka_broker(nodes=3)": "*unknown arguments of kafka_broker: nodes*",
        'kafka_broker(config={"num.partition": 3})': "*did you mean num.partitions?*",
    }
    tests = [
        f"@pytest.mark.{marker}\ndef test_{number}(kafka_broker):\n    pass"
        for number, marker in enumerate(messages)
    ]
    pytester.makepyfile("\n".join(["import pytest", *tests]))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines([f"*{message}*" for message in messages.values()])


@pytest.mark.processes
def test_a_failed_test_shows_the_last_requests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import kafka

        def test_it(kafka_broker):
            kafka_broker.fail_next("METADATA", "LEADER_NOT_AVAILABLE", topic="orders")
            producer = kafka.KafkaProducer(
                bootstrap_servers=kafka_broker.bootstrap_servers, client_id="mine"
            )
            producer.send("orders", b"one").get(300)
            producer.close()
            assert kafka_broker.records("orders") == []
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Captured kafka_broker call*",
            "broker 1  mine  METADATA * -> LEADER_NOT_AVAILABLE",
            "broker 1  mine  PRODUCE *",
        ]
    )


HANGING = """
    import time
    import kafka
    import pytest

    @pytest.fixture
    def pending(kafka_broker):
        held = kafka_broker.hold("PRODUCE")
        producer = kafka.KafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers, client_id="mine"
        )
        producer.send("orders", b"one")
        held.wait(timeout_s=60)

    @pytest.mark.timeout(4, method="{method}", func_only=True)
    def test_it(kafka_broker, pending):
        time.sleep(600)
"""


@pytest.mark.processes
@pytest.mark.parametrize("method", ["signal", "thread"])
def test_a_test_that_times_out_shows_the_last_requests(
    pytester: pytest.Pytester, method: str
) -> None:
    pytester.makepyfile(HANGING.format(method=method))
    result = pytester.runpytest_subprocess("-p", "timeout")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["broker 1  mine  PRODUCE *[[]PRODUCE held[]]  -> no response"])


@pytest.mark.processes
def test_brokers_and_proxies_of_other_fixtures_are_shown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import kafka
        import pytest
        from brokertwin.testing import KafkaBroker, KafkaProxy

        @pytest.fixture(scope="session")
        def shared():
            with KafkaBroker() as broker:
                yield broker

        @pytest.fixture
        def between(shared):
            with KafkaProxy(shared.bootstrap) as proxy:
                yield proxy

        @pytest.fixture
        def client(between):
            kafka.KafkaAdminClient(bootstrap_servers=between.bootstrap, client_id="mine")
            raise AssertionError

        def test_it(shared, between, client):
            pass
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*shared setup*", "broker 1  mine  METADATA *", "*between setup*", "mine  METADATA *"]
    )


@pytest.mark.processes
def test_assertions_of_the_package_are_not_rewritten(pytester: pytest.Pytester) -> None:
    """Pytest rewrites those of each installed distribution that registers a plugin."""
    pytester.makeconftest("import pytest; pytest.register_assert_rewrite('brokertwin')")
    pytester.makepyfile(
        """
        import sys

        def test_it(kafka_broker):
            loaders = {
                name: type(module.__loader__).__name__
                for name, module in sys.modules.items()
                if name.startswith("brokertwin.")
            }
            rewritten = {name for name, kind in loaders.items() if kind != "SourceFileLoader"}
            assert rewritten <= {"brokertwin.testing", "brokertwin.testing.plugin"}
            assert len(loaders) > 100
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_plugin_imports_almost_nothing() -> None:
    code = """
import sys, pytest
before = set(sys.modules)
import brokertwin.testing.plugin
print(sorted(m for m in set(sys.modules) - before if not m.startswith("brokertwin")))
print("brokertwin.testing.broker" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False"]
