"""Kafka's tools and an admin client on three brokers, compared with real ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from brokertwin.kafka_io import properties
from tests.support.admin_sides import call_all, differing
from tests.support.admin_steps import ON_THREE_BROKERS
from tests.support.cluster_steps import ASIDE, DIFFERENCES, FILES, STEPS
from tests.support.gateways import running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.kafka_tools import ToolProcess
from tests.support.tool_sides import Side, take_all, unexplained
from tests.support.tool_steps import SETTINGS, write_files

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    home = tmp_path_factory.mktemp("three")
    with kafka_cluster(home / "kafka", 3, SETTINGS) as nodes:
        first, bootstrap = nodes[1]
        given = properties.read(first.home / "server.properties")
        with running_gateway(given, brokers=3) as gateway:
            yield bootstrap, gateway.bootstrap


def test_output_of_the_tools_equals_that_of_three_real_brokers(
    bootstraps: tuple[str, str], tmp_path: Path
) -> None:
    files = write_files(tmp_path, FILES)
    with ToolProcess() as one, ToolProcess() as other:
        real = Side(bootstraps[0], one, files, ASIDE)
        ours = Side(bootstraps[1], other, files, ASIDE)
        take_all(real, ours, STEPS, DIFFERENCES)
    found = unexplained(real.found, ours.found, DIFFERENCES)
    assert not found, "\n".join(found)
    ended_well = sum("status 0" in lines for lines in real.found.values())
    assert ended_well > 40


def test_results_of_an_admin_client_equal_those_of_three_real_brokers(
    bootstraps: tuple[str, str],
) -> None:
    admins = [KafkaAdminClient(bootstrap_servers=each) for each in bootstraps]
    try:
        found = differing(call_all(admins, bootstraps, ON_THREE_BROKERS))
    finally:
        for admin in admins:
            admin.close()
    assert not found, "\n".join(found)
