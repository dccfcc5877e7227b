"""The settings of a real broker, and the file that they are written to."""

from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io import broker_facts, properties
from brokertwin.kafka_io.kafka_clients import ClientProperties


def test_a_real_broker_tells_what_it_has_otherwise_than_by_default(kafka: str) -> None:
    found = broker_facts.read(ClientProperties({"bootstrap.servers": kafka}))
    assert found["offsets.topic.replication.factor"] == "1"
    assert "message.max.bytes" not in found, "Kafka's default"
    assert not [name for name in found if "listener" in name or "log.dir" in name]


def test_only_a_file_of_its_own_is_written_over(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    broker_facts.write(file, {"num.partitions": "3"})
    broker_facts.write(file, {"num.partitions": "4", "super.users": "User:a\\b"})
    assert properties.read(file) == {"num.partitions": "4", "super.users": "User:a\\b"}
    file.write_text("num.partitions=5\n")
    with pytest.raises(UserError, match="not written by `brokertwin capture`"):
        broker_facts.write(file, {})
    assert properties.read(file) == {"num.partitions": "5"}


def test_a_file_that_cannot_be_written_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Cannot write to"):
        broker_facts.write(tmp_path / "nowhere" / "a.properties", {})
