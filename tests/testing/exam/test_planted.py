"""Planted deviations are found, and without one the exam finds none."""

from collections.abc import Iterator

import pytest

from tests.exam.planted import PLANTS, Plant, add, code, found_by
from tests.support.gateways import Running, running_gateway

QUICK = (add("OffsetForLeaderEpoch", "endOffset"), code("DeleteGroups", 68))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway({"auto.create.topics.enable": "true"}) as running:
        yield running


@pytest.mark.parametrize("plant", QUICK, ids=lambda each: each.api)
def test_a_planted_deviation_is_found(gateway: Running, plant: Plant) -> None:
    found = found_by(gateway.addresses, plant)
    assert {each.api for result in found for each in result.deviations} == {plant.api}


def test_a_proxy_that_changes_nothing_is_not_accused(gateway: Running) -> None:
    unchanged = Plant("DeleteRecords", "nothing", lambda body: body)
    assert found_by(gateway.addresses, unchanged) == []


@pytest.mark.clients
@pytest.mark.parametrize("plant", PLANTS, ids=lambda each: f"{each.api}: {each.what}")
def test_all_planted_deviations_are_found(gateway: Running, plant: Plant) -> None:
    assert found_by(gateway.addresses, plant)
