"""The broker settings of former Kafka versions."""

import pytest

from brokertwin.clients.era import Era
from brokertwin.protocol.errors import Error
from brokertwin.state.configs.broker_config import ACTED_ON, parse
from brokertwin.state.eras.versions import SETTINGS, TRACES
from tests.support.machine import Bench, header


def test_each_era_of_the_options_has_settings() -> None:
    assert set(SETTINGS) == {era.value for era in Era}


@pytest.mark.parametrize("version", SETTINGS)
def test_settings_of_a_version_have_effect(version: str) -> None:
    given = {**SETTINGS[version], **TRACES}
    assert given.keys() <= ACTED_ON
    assert parse(given)[1] == []


@pytest.mark.parametrize(
    ("version", "expected"), [("0.10", Error.NONE), ("2.0", Error.UNKNOWN_PRODUCER_ID)]
)
def test_unknown_producer_is_rejected_from_0_11_until_2_5(version: str, expected: Error) -> None:
    settings = parse(SETTINGS[version])[0]
    bench = Bench()
    bench.settings.broker_settings = settings
    bench.topic("test", 1)
    assert bench.append("test", header(1, 7, 0, 3))["errorCode"] == expected
