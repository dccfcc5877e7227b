"""The assignors of Connect beside Kafka's own Java classes, on groups that change.

`Connect.java` beside this file drives them. `EXAMPLES=10` tries ten times as many groups.
"""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from brokertwin.clients.connect.connect_protocol import Assignment, decode_assignment
from tests.support.connect_groups import ROUNDS, Workers, as_json
from tests.support.examples import examples
from tests.support.kafka_tools import java_command

GROUPS = examples(120)
DRIVER = Path(__file__).with_name("Connect.java")


def javas_answers(questions: list[dict[str, Any]]) -> list[dict[str, bytes]]:
    """What Kafka's own assignors say."""
    done = subprocess.run(
        [*java_command(), str(DRIVER)],
        input="".join(json.dumps(as_json(question)) + "\n" for question in questions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [{m: base64.b64decode(data) for m, data in line.items()} for line in lines]


def comparable(data: bytes) -> tuple[Any, ...]:
    """An assignment whose order within a worker does not count: nothing is decided by it here."""
    got: Assignment = decode_assignment(data)
    head = (got.version, got.error, got.leader, got.leader_url, got.config_offset, got.delay_ms)
    return *head, sorted(got.assigned), sorted(got.revoked), len(data)


@pytest.mark.kafka
def test_java_assigns_the_same_to_workers_that_come_and_go() -> None:
    asked: list[tuple[int, dict[str, Any], dict[str, bytes]]] = []
    delays: list[int] = []
    for seed in range(GROUPS):
        workers = Workers(seed)
        for _ in range(ROUNDS):
            question = workers.question()
            given = workers.assign(question)
            asked.append((seed, question, given))
            workers.take(given)
            workers.change()
        delays += workers.delays
    answers = javas_answers([question for _, question, _ in asked])
    for (seed, question, ours), theirs in zip(asked, answers, strict=True):
        case = f"group {seed}, round {question['round']}, {question['protocol']}"
        mine = {member: comparable(data) for member, data in ours.items()}
        assert mine == {member: comparable(data) for member, data in theirs.items()}, case
    assert 0 < sum(delay > 0 for delay in delays) < len(delays)
