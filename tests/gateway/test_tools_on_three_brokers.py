"""Kafka's own command-line tools print on a gateway of three brokers what they print on three."""

import pytest

from brokerstream.kafka_io import properties
from tests.support.cluster_steps import ASIDE, DIFFERENCES, FILES, STEPS
from tests.support.gateways import running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.kafka_tools import ToolProcess
from tests.support.tool_sides import Side, take_all, unexplained
from tests.support.tool_steps import SETTINGS, write_files


@pytest.mark.kafka
def test_the_tools_print_what_they_print_on_three_real_brokers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("three")
    files = write_files(home, FILES)
    with kafka_cluster(home / "kafka", 3, SETTINGS) as nodes:
        first, bootstrap = nodes[1]
        given = properties.read(first.home / "server.properties")
        with (
            running_gateway(given, brokers=3) as gateway,
            ToolProcess() as one,
            ToolProcess() as other,
        ):
            real = Side(bootstrap, one, files, ASIDE)
            ours = Side(gateway.bootstrap, other, files, ASIDE)
            take_all(real, ours, STEPS, DIFFERENCES)
    found = unexplained(real.found, ours.found, DIFFERENCES)
    assert not found, "\n".join(found)
    ended_well = sum("status 0" in lines for lines in real.found.values())
    assert ended_well > 40
