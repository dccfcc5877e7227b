"""Requests to a real broker and ours before and after an internal topic is deleted."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.patience import wait_until
from tests.support.walk_sides import Body, Side, Step

NOT_COORDINATOR = 16
OF_TIME = ("transactionStartTimeMs", "lastTimestamp")
Told = list[tuple[str, Any]]


def errors(answer: Any) -> set[int]:
    """All errors of an answer."""
    if isinstance(answer, list):
        return set().union(*map(errors, answer))
    if not isinstance(answer, dict):
        return set()
    own = {each for name, each in answer.items() if name.endswith("rrorCode") and each}
    return own.union(*map(errors, answer.values()))


class Asking:
    """Requests to one side in order, and its responses.

    `masks` are texts that differ between the sides, with their replacements; lists of groups
    show these `groups` alone.
    """

    groups: list[str]

    def __init__(self, side: Side) -> None:
        self.side, self.told = side, list[tuple[str, Any]]()
        self.masks: dict[str, str] = {}
        self.groups = []

    def ask(self, what: str, api: str, version: int, body: Body) -> Body:
        """Notes an answer, and gives it back."""
        answer = self.quietly(api, version, body)
        self.note(f"{what}: {api}", answer)
        return answer

    def note(self, what: str, answer: Any) -> None:
        text = json.dumps(_timeless(answer))
        for own, mask in self.masks.items():
            text = text.replace(own, mask)
        self.told.append((what, json.loads(text)))

    def quietly(self, api: str, version: int, body: Body) -> Body:
        told = self.side.call(api, version, body)
        return self.side.shown(Step(api, version, body), told, self.groups)

    def find(self, key: str, key_type: int) -> None:
        """A key has its coordinator."""
        asked = {"keyType": key_type, "coordinatorKeys": [key]}
        wait_until(lambda: not errors(self.quietly("FIND_COORDINATOR", 6, asked)))

    def topic_of(self, name: str) -> tuple[str, str]:
        """What Metadata says of an internal topic, and its id."""
        asked = {"topics": [{"name": name}], "allowAutoTopicCreation": False}
        (topic,) = self.quietly("METADATA", 12, asked)["topics"]
        topic_id = topic.pop("topicId")
        self.note(f"{name} is described", topic)
        return name, topic_id

    def delete(self, name: str, asked: Callable[[], Body]) -> None:
        """Repeat a request until it returns that no coordinator is available."""
        former = self.topic_of(name)
        self.ask("deletion", "DELETE_TOPICS", 5, {"topicNames": [name], "timeoutMs": 30_000})
        wait_until(lambda: NOT_COORDINATOR in errors(asked()))
        assert self.topic_of(name)[1] != former[1]
        self.side.settle()

    def again(self, name: str, key: str, key_type: int, asked: Callable[[], Body]) -> None:
        """Look up a coordinator, which creates the topic again."""
        self.ask("is gone", "FIND_COORDINATOR", 3, {"key": key, "keyType": key_type})
        self.find(key, key_type)
        wait_until(lambda: not {14, 15, 16} & errors(asked()))
        self.side.settle()
        self.topic_of(name)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items() if name not in OF_TIME}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def assert_same(told: list[Told]) -> None:
    for ours, theirs in zip(*told, strict=True):
        assert ours == theirs
