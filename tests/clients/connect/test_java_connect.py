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
from tests.support.java_answers import ask_java, inputs, java_answers
from tests.support.kafka_tools import java_command

GROUPS = 120
DRIVER = Path(__file__).with_name("Connect.java")


def javas_answers(questions: Sequence[str]) -> list[Any]:
    """Return what Kafka's own assignors assign."""
    return ask_java(DRIVER, questions, java_command())


def comparable(data: bytes) -> tuple[Any, ...]:
    """An assignment whose order within a worker does not count: nothing is decided by it here."""
    got: Assignment = decode_assignment(data)
    head = (got.version, got.error, got.leader, got.leader_url, got.config_offset, got.delay_ms)
    return *head, sorted(got.assigned), sorted(got.revoked), len(data)


@pytest.mark.compares
def test_java_assigns_the_same_to_workers_that_join_and_leave() -> None:
    asked: list[tuple[int, dict[str, Any], dict[str, bytes]]] = []
    delays: list[int] = []
    for seed in range(inputs(GROUPS)):
        workers = Workers(seed)
        for _ in range(ROUNDS):
            question = workers.question()
            given = workers.assign(question)
            asked.append((seed, question, given))
            workers.take(given)
            workers.change()
        delays += workers.delays
    lines = [json.dumps(as_json(question)) for _, question, _ in asked]
    answers = java_answers("clients/connect_assignors", lines, javas_answers)
    for (seed, question, ours), theirs in zip(asked, answers, strict=True):
        case = f"group {seed}, round {question['round']}, {question['protocol']}"
        mine = {member: comparable(data) for member, data in ours.items()}
        java = {member: comparable(base64.b64decode(data)) for member, data in theirs.items()}
        assert mine == java, case
    assert 0 < sum(delay > 0 for delay in delays) < len(delays)
