"""`explain --live` reads the rows and findings of a subject from the topics of a live audit."""

import json
import uuid

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import client_properties
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.settings import load
from brokertwin.streaming.live.operator import FINDINGS
from brokertwin.streaming.live.read_back import newest_findings
from brokertwin.streaming.live.reading import TopicLine
from brokertwin.streaming.live.tables import TABLES
from tests.support import audits
from tests.support.live import LiveTopics
from tests.support.patience import PATIENCE_S

CAPTURE = "txn_fencing_ck"
NAME = "txn_fencing_ck.14.txn-0"


@pytest.fixture(scope="module")
def audited(kafka: str) -> tuple[str, str]:
    """A Kafka with the topics of a live audit; its address and their prefix."""
    made, prefix = LiveTopics(), f"live{uuid.uuid4().hex[:8]}"
    lines = audits.lines(*audits.RECORDINGS[CAPTURE])
    made.batch([TopicLine("requests/0", n, line, "bank") for n, line in enumerate(lines)])
    made.end()
    client = client_properties(load({"bootstrap": kafka}).settings)
    admin = topics.admin_client(client)
    names = [FINDINGS, *(each.name for each in TABLES if each.has_topic)]
    topics.create(admin, {f"{prefix}.{name}": TopicSpec(name) for name in names})
    for name in names:
        topics.topic_id(admin, f"{prefix}.{name}")
    writer = Producer(topics.writer_configuration(client))
    for name in names:
        for key, value in made.rows[name].items():
            writer.produce(f"{prefix}.{name}", value, key)
    assert writer.flush(PATIENCE_S) == 0
    return kafka, prefix


def explained(audited: tuple[str, str], *words: str) -> str:
    bootstrap, prefix = audited
    done = CliRunner().invoke(app, ["explain", *words, "--live", prefix, "--bootstrap", bootstrap])
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def documents(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.kafka
def test_a_producer_has_its_row_and_its_findings_in_time_order(audited: tuple[str, str]) -> None:
    found = documents(explained(audited, "producer", NAME, "--json"))
    (row,) = [each for each in found if each["kind"] == "transactions"]
    assert (row["cluster"], row["transactional_id"]) == ("bank", NAME)
    findings = [each for each in found if "evidence" in each]
    assert {each["subject"] for each in findings} == {f"producer {NAME}"}
    times = [each["to"] for each in findings]
    assert times == sorted(times)
    assert "producer-fenced" in {each["kind"] for each in findings}

    shown = explained(audited, "producer", NAME)
    assert "transactional_id" in shown.splitlines()[1] + shown.splitlines()[2]
    assert "refused: 47 INVALID_PRODUCER_EPOCH" in shown
    assert "2026-11-21  cluster bank" in shown
    assert "because  " in shown


@pytest.mark.kafka
def test_a_producer_is_found_by_its_id_too(audited: tuple[str, str]) -> None:
    by_name = documents(explained(audited, "producer", NAME, "--json"))
    (row,) = [each for each in by_name if each["kind"] == "transactions"]
    by_id = documents(explained(audited, "producer", str(row["producer_id"]), "--json"))
    assert row in by_id


@pytest.mark.kafka
def test_unknown_subjects_and_topics_are_reported(audited: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=r"have no group nothing.*--available-now"):
        explained(audited, "group", "nothing")
    with pytest.raises(UserError, match="no rows of a partition"):
        explained(audited, "partition", "orders-0")
    with pytest.raises(UserError, match=r"has no topic other\.sessions"):
        explained((audited[0], "other"), "session", "1")
    with pytest.raises(UserError, match="Cannot combine --live with --errors"):
        explained(audited, "group", "a", "--errors")


@pytest.mark.kafka
def test_the_newest_findings_are_the_last_rows_of_the_topic(audited: tuple[str, str]) -> None:
    bootstrap, prefix = audited
    client = client_properties(load({"bootstrap": bootstrap}).settings)
    whole = newest_findings(client, prefix, 1_000)
    assert len(whole) > 3
    assert newest_findings(client, prefix, 3) == whole[-3:]
