"""The exam of a gateway, and of a real Kafka."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.testing import KafkaBroker
from brokertwin.testing.exam.examination import PREFIX, ExamOptions, check_is_empty, examine
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.site import Site, look
from brokertwin.testing.exam.verdicts import Outcome
from brokertwin.testing.exam.versions import inheriting, reference_of
from tests.exam.steady import behind
from tests.support.exams import deviating, examined
from tests.support.gateways import Running, client_at, running_gateway

QUICK = ("idem_in", "txn_commit", "fetch_new", "grp_leave", "cons_join", "off_simple", "size_above")
"""Beginnings of names of scenarios that need no time."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway({"auto.create.topics.enable": "true"}) as running:
        yield running


def test_gateway_responds_like_kafka(gateway: Running) -> None:
    results = examined(gateway.addresses[1], *QUICK)
    assert len(results) > 15
    assert deviating(results) == {}
    assert {each.outcome for each in results} == {Outcome.AGREES}


def test_gateway_of_4_4_responds_like_kafka_4_4() -> None:
    reference = reference_of("4.4")
    assert reference is not None
    settings = {
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "errors.deadletterqueue.topic.name.prefix": "",
    }
    with KafkaBroker(version="4.4", config=settings) as broker:
        host, _, port = broker.bootstrap.partition(":")
        known = inheriting(selected(), reference)
        chosen = [
            e for e in known if e[0].kafka == reference.kafka or e[1].name in reference.goldens
        ]
        results = examine(chosen, look(Address(host, int(port)), []), ExamOptions(patience=5))
    assert deviating(results) == {}
    assert {each.outcome for each in results} == {Outcome.AGREES}


def test_a_slow_network_is_not_accused(gateway: Running) -> None:
    with behind(look(gateway.addresses[1], []), seed=1) as slow:
        results = examine(list(selected(["idem_in", "grp_leave"])), slow)
    assert {each.outcome for each in results} == {Outcome.AGREES}


def test_scenarios_for_other_settings_are_played_if_the_broker_has_them() -> None:
    interval = {"producer.id.expiration.check.interval.ms": "500"}
    settings = {"producer.id.expiration.ms": "2000", **interval}
    with running_gateway(settings) as running:
        (found,) = examined(running.addresses[1], "idem_expired_id_goes_on")
    assert found.outcome is Outcome.AGREES


def test_scenarios_of_acls_are_played_if_the_broker_has_an_authorizer() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    with running_gateway(settings) as running:
        results = examined(running.addresses[1], "acl_")
    assert {each.outcome for each in results} == {Outcome.AGREES}


def test_a_restart_needs_a_command(gateway: Running) -> None:
    site = look(gateway.addresses[1], [])
    ((_, scenario),) = selected(["restart_fetch_session"])
    assert site.missing(scenario) == "needs --restart-command"
    assert site._replace(restart=lambda: None).missing(scenario) == ""


def test_exam_deletes_what_it_created(gateway: Running) -> None:
    examined(gateway.addresses[1], "off_simple", "grp_leave")
    with gateway.client() as client:
        topics = client.call("METADATA", 12, {"topics": None})["topics"]
        groups = client.call("LIST_GROUPS", 4)["groups"]
    names = [*(each["name"] for each in topics), *(each["groupId"] for each in groups)]
    assert [name for name in names if name.startswith(PREFIX)] == []


def test_unclaimed_apis_are_not_played() -> None:
    site = Site({1: Address("none", 1)}, 1, {"Produce": (3, 8)}, {}, {}, [], [])
    results = examine(list(selected(["idem_in_sequence", "txn_commit"])), site)
    assert {each.outcome for each in results} == {Outcome.NOT_CLAIMED}
    assert all("not claimed" in each.reason for each in results)


def test_other_settings_make_a_golden_inapplicable() -> None:
    with running_gateway({"offset.metadata.max.bytes": "10"}) as running:
        (found,) = examined(running.addresses[1], "off_metadata_limit")
    assert found.outcome is Outcome.OTHER_SETTINGS
    assert found.reason == "offset.metadata.max.bytes is 10, not 4096"


def test_exam_refuses_a_cluster_with_other_topics(gateway: Running) -> None:
    with client_at(gateway.bootstrap) as client:
        client.topic("orders")
    site = look(gateway.addresses[1], [])
    with pytest.raises(UserError, match=r"has 1 topic and 0 groups: orders\. Pass .*--yes"):
        check_is_empty(site)


def test_a_port_without_a_broker_is_an_error() -> None:
    with pytest.raises(UserError, match="does not respond to ApiVersions"):
        look(Address("127.0.0.1", 1), [])


@pytest.mark.clients
def test_all_scenarios_at_a_cluster_of_gateways() -> None:
    with running_gateway({"auto.create.topics.enable": "true"}, brokers=3) as running:
        results = examined(running.addresses[1])
    assert deviating(results) == {}
    single = {each.name for _, each in selected() if each.is_single}
    assert {each.scenario for each in results if "one broker" in each.reason} <= single
    played = {each.scenario for each in results if each.outcome is Outcome.AGREES}
    assert played & single == set()


@pytest.mark.kafka
def test_all_scenarios_at_a_real_kafka(tmp_path: Path) -> None:
    from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
    from brokertwin.settings import default_home

    broker = EmbeddedKafka(tmp_path, default_home())
    try:
        host, _, port = broker.start({"auto.create.topics.enable": "true"}).rpartition(":")
        results = examined(Address(host, int(port)))
    finally:
        broker.stop()
    assert deviating(results) == {}
    of_release = {each.name for subject, each in selected() if subject.kafka == KAFKA_VERSION}
    left_out = [each for each in results if each.outcome is not Outcome.AGREES]
    unplayed = {each.reason for each in left_out if each.scenario in of_release}
    needs = r"needs (2 brokers|--restart-command|producer\.id\.expiration\.ms=2000"
    needs += r"|authorizer\.class\.name=\S+)"
    assert all(re.fullmatch(needs, reason) for reason in unplayed)
