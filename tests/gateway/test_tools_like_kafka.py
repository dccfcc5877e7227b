"""Kafka's command-line tools: compare the output with a real broker.

Names, numbers and times that differ between brokers are masked. Unsupported output is listed in
`tests/support/tool_steps.py` with the reason.
"""

import msgspec
import pytest

from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.engine.persistence import JournalOptions
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.state.core.settings import BrokerSettings
from tests.support.gateways import running_gateway
from tests.support.kafka_tools import ToolProcess
from tests.support.tool_sides import Found, Side, differing, explains, take_all, unexplained
from tests.support.tool_steps import CLASSES, DIFFERENCES, SETTINGS, STEPS, write_files


def with_rows(
    cluster: str, brokers: list[int], settings: BrokerSettings, journal: JournalOptions | None
) -> LocalEngine:
    """Serve internal topics with rows, as `brokertwin gateway` does; no setting shows it."""
    settings = msgspec.structs.replace(settings, brokertwin_internal_logs=True)
    return LocalEngine(cluster, brokers, settings, journal)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    """Return the output with a real broker, and with a gateway with its settings."""
    home = tmp_path_factory.mktemp("tools")
    kafka, files = EmbeddedKafka(home / "kafka", default_home()), write_files(home)
    try:
        bootstrap = kafka.start(SETTINGS)
        given = properties.read(kafka.home / "server.properties")
        made = running_gateway(given, engine_type=with_rows)
        with made as gateway, ToolProcess() as one, ToolProcess() as other:
            sides = Side(bootstrap, one, files), Side(gateway.bootstrap, other, files)
            take_all(*sides, STEPS, DIFFERENCES)
            return sides[0].found, sides[1].found
    finally:
        kafka.stop()


@pytest.mark.kafka
def test_output_of_the_tools_equals_a_real_brokers(found: tuple[Found, Found]) -> None:
    assert not unexplained(*found, DIFFERENCES), "\n".join(unexplained(*found, DIFFERENCES))


@pytest.mark.kafka
def test_every_listed_difference_exists(found: tuple[Found, Found]) -> None:
    past = [
        each for each in DIFFERENCES if not any(explains(each, *one) for one in differing(*found))
    ]
    assert not past


@pytest.mark.kafka
def test_every_tool_has_a_successful_step(found: tuple[Found, Found]) -> None:
    well = {step.split()[1] for step, lines in found[0].items() if "status 0" in lines}
    assert well | {"kafka-delegation-tokens"} == CLASSES.keys()
