"""Offsets that a broker refuses to write, at a gateway with ACLs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commits import commit
from tests.support.console import brokertwin
from tests.support.gateways import running_gateway

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
GROUP, LITERAL, ALLOW, DESCRIBE = 3, 3, 3, 8
"""Kafka's codes."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster whose group `billing` may be described only."""
    with running_gateway(AUTHORIZER) as running, running.client() as client:
        client.topic("orders")
        commit(running.bootstrap, "billing", "orders", 5)
        acl = {
            "resourceType": GROUP,
            "resourceName": "billing",
            "resourcePatternType": LITERAL,
            "principal": "User:ANONYMOUS",
            "host": "*",
            "operation": DESCRIBE,
            "permissionType": ALLOW,
        }
        response = client.call("CREATE_ACLS", 3, {"creations": [acl]})
        assert response["results"][0]["errorCode"] == 0
        yield running.bootstrap


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "offsets.csv", "--to", "BOOTSTRAP", "--back"), "0 offsets written, 1 refused"),
        (("clean", "BOOTSTRAP", "billing", "--execute"), "refused the request"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_output_explains_the_saved_file_if_all_writes_are_refused(
    bootstrap: str, words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "offsets.csv").write_text("billing,orders,0,0\n")
    words = tuple(word.replace("BOOTSTRAP", bootstrap) for word in words)
    done = brokertwin("offsets", *words, cwd=tmp_path)
    (saved,) = tmp_path.glob("*.json")
    assert f"saved the former offsets to {saved.name} before the change" in done.stderr
    assert message in done.stderr
    assert "undo it with" not in done.stderr
