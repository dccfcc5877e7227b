"""The assignors of Connect beside Kafka's own Java classes, on groups that change.

`Connect.java` beside this file drives them. `GOLDENS=compare EXAMPLES=1000` tries as
many groups.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from brokertwin.clients.connect.connect_protocol import Assignment, decode_assignment
from tests.support.connect_groups import ROUNDS, Workers, as_json
from tests.support.java_responses import inputs, java_responses, json_from_java
from tests.support.kafka_tools import java_command

GROUPS = 120
DRIVER = Path(__file__).with_name("Connect.java")


def responses_of_java(requests: Sequence[str]) -> list[Any]:
    """Return what Kafka's own assignors assign."""
    return json_from_java(DRIVER, requests, java_command())


def comparable(data: bytes) -> tuple[Any, ...]:
    """An assignment whose order within a worker does not count: nothing is decided by it here."""
    got: Assignment = decode_assignment(data)
    head = (got.version, got.error, got.leader, got.leader_url, got.config_offset, got.delay_ms)
    return *head, sorted(got.assigned), sorted(got.revoked), len(data)


@pytest.mark.compares
def test_java_assigns_the_same_to_workers_that_join_and_leave() -> None:
    requests: list[tuple[int, dict[str, Any], dict[str, bytes]]] = []
    delays: list[int] = []
    for seed in range(inputs(GROUPS)):
        workers = Workers(seed)
        for _ in range(ROUNDS):
            request = workers.request()
            given = workers.assign(request)
            requests.append((seed, request, given))
            workers.take(given)
            workers.change()
        delays += workers.delays
    lines = [json.dumps(as_json(request)) for _, request, _ in requests]
    responses = java_responses("clients/connect_assignors", lines, responses_of_java)
    for (seed, request, ours), theirs in zip(requests, responses, strict=True):
        case = f"group {seed}, round {request['round']}, {request['protocol']}"
        mine = {member: comparable(data) for member, data in ours.items()}
        java = {member: comparable(base64.b64decode(data)) for member, data in theirs.items()}
        assert mine == java, case
    assert 0 < sum(delay > 0 for delay in delays) < len(delays)
