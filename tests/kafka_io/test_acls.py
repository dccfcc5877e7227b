"""The ACLs in docs/reads_and_writes.md are those that `offsets` needs at a real broker."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.commits import commit
from tests.support.console import brokertwin
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import ROOT

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USER = "User:reader"
COMMANDS = {
    "offsets import": "offsets import ADDRESS backup --kafka-config FILE",
    "offsets show": "offsets show ADDRESS --kafka-config FILE",
    "offsets export --to --dry-run": "offsets export u.csv --dry-run --to ADDRESS --to-config FILE",
    "offsets export --to": "offsets export u.csv --to ADDRESS --to-config FILE",
    "offsets clean": "offsets clean ADDRESS g --kafka-config FILE",
    "offsets clean --execute": "offsets clean ADDRESS g --execute --kafka-config FILE",
}
NAMES = {"topics": "t", "groups": "g"}
"""Words of the page for what the test has."""


def needed(command: str) -> list[tuple[str, str, str]]:
    page = (ROOT / "docs" / "reads_and_writes.md").read_text()
    row = re.search(rf"^\| `{re.escape(command)}` \|.*$", page, re.MULTILINE)
    assert row is not None, command
    acls = row[0].split("|")[4]
    result = []
    for operation, what in re.findall(r"(Read|Describe|Delete) on (`[^`]+`|\w+)", acls):
        name = what.strip("`")
        kind = "GROUP" if name == "groups" else "TOPIC"
        result.append((kind, NAMES.get(name, name), operation.upper()))
    assert result, acls
    return result


def binding(kind: str, name: str, operation: str) -> AclBinding:
    return AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType.LITERAL,
        USER,
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Any]]:
    """Yield address, client file, and a function that sets the ACLs of a real broker."""
    directory = tmp_path_factory.mktemp("acls")
    kafka = EmbeddedKafka(directory / "broker", default_home())
    login = f'{PLAIN} username="broker" password="b" user_broker="b" user_reader="r";'
    try:
        bootstrap = kafka.start(
            {
                "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listener.name.client.plain.sasl.jaas.config": login,
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "authorizer.class.name": (
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                ),
                "super.users": "User:broker;User:ANONYMOUS",
            }
        )
        root = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "broker",
            "sasl.password": "b",
        }
        admin = AdminClient(root)
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
        producer = Producer(root)
        for _ in range(20):
            producer.produce("t", b"x")
        assert producer.flush(PATIENCE_S) == 0
        file = directory / "reader.properties"
        values = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        values["sasl.jaas.config"] = f'{PLAIN} username="reader" password="r";'
        file.write_text(properties.dump(values))
        every = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, USER, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )

        def allow(acls: list[tuple[str, str, str]]) -> None:
            commit(bootstrap, "g", "t", 3, changes=root)
            (deleted,) = admin.delete_acls([every]).values()
            deleted.result(PATIENCE_S)
            created = admin.create_acls([binding(*each) for each in acls]) if acls else {}
            for future in created.values():
                future.result(PATIENCE_S)
            wait_until(lambda: len(admin.describe_acls(every).result(PATIENCE_S)) == len(acls))

        yield bootstrap, file, allow
    finally:
        kafka.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("command", COMMANDS)
def test_the_listed_acls_are_enough_and_each_is_needed(
    command: str, cluster: tuple[str, Path, Callable[..., None]], tmp_path: Path
) -> None:
    bootstrap, file, allow = cluster
    (tmp_path / "u.csv").write_text("g,t,0,9\n")
    words = {"ADDRESS": bootstrap, "FILE": str(file)}
    call = [words.get(word, word) for word in COMMANDS[command].split()]
    acls = needed(command)
    for missing in acls:
        allow([each for each in acls if each != missing])
        done = brokertwin(*call, cwd=tmp_path)
        assert done.returncode in (1, 2), (missing, done.stderr)
        assert "Traceback" not in done.stderr, missing
        if missing == ("GROUP", "g", "DESCRIBE"):
            assert re.search("Group ?[Aa]uthorization ?[Ff]ailed", done.stderr)
        if done.returncode == 2:
            assert "authorized" in done.stderr or "The user" in done.stderr or "ACL" in done.stderr
    allow(acls)
    done = brokertwin(*call, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
