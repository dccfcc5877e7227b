"""Planted deviations are found, and without one the exam finds none."""

from collections.abc import Iterator
from typing import Any

import pytest

from brokertwin.testing.exam.examination import ExamOptions, examine
from brokertwin.testing.exam.site import look
from tests.exam.planted import PLANTS, Plant, about, add, code, found_by, ignore, planted
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


def test_an_ignored_field_of_requests_is_found(gateway: Running) -> None:
    assert found_by(gateway.addresses, ignore("DeleteRecords", "offset", 0))


def test_waiting_for_a_created_topic_does_not_create_it_again(gateway: Running) -> None:
    """On a slow cluster each such request would reach the controller."""
    seen: list[dict[str, Any]] = []
    with planted(gateway.addresses[1], Plant("Metadata", "seen", seen.append, True)) as at:
        site = look(at, [])._replace(brokers={1: at})
        examine(about("DeleteRecords")[:3], site, ExamOptions(1))
    assert {each.get("allowAutoTopicCreation") for each in seen if each["topics"]} == {False}


@pytest.mark.clients
@pytest.mark.parametrize("plant", PLANTS, ids=lambda each: f"{each.api}: {each.what}")
def test_all_planted_deviations_are_found(gateway: Running, plant: Plant) -> None:
    assert found_by(gateway.addresses, plant)
