"""Requests to a real broker and ours before and after an internal topic is deleted."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.patience import wait_until
from tests.support.walk_sides import Body, Side, Step

NOT_COORDINATOR = 16
OF_TIME = ("transactionStartTimeMs", "lastTimestamp")
Responses = list[tuple[str, Any]]


def errors(response: Any) -> set[int]:
    if isinstance(response, list):
        return set().union(*map(errors, response))
    if not isinstance(response, dict):
        return set()
    own = {each for name, each in response.items() if name.endswith("rrorCode") and each}
    return own.union(*map(errors, response.values()))


class Requests:
    """Requests to one side in order, and its responses.

    `masks` are texts that differ between the sides, with their replacements; lists of groups
    show these `groups` alone.
    """

    groups: list[str]

    def __init__(self, side: Side) -> None:
        self.side, self.reported = side, list[tuple[str, Any]]()
        self.masks: dict[str, str] = {}
        self.groups = []

    def call(self, what: str, api: str, version: int, body: Body) -> Body:
        response = self.quietly(api, version, body)
        self.note(f"{what}: {api}", response)
        return response

    def note(self, what: str, response: Any) -> None:
        text = json.dumps(_timeless(response))
        for own, mask in self.masks.items():
            text = text.replace(own, mask)
        self.reported.append((what, json.loads(text)))

    def quietly(self, api: str, version: int, body: Body) -> Body:
        response = self.side.call(api, version, body)
        return self.side.shown(Step(api, version, body), response, self.groups)

    def find(self, key: str, key_type: int) -> None:
        request = {"keyType": key_type, "coordinatorKeys": [key]}
        wait_until(lambda: not errors(self.quietly("FIND_COORDINATOR", 6, request)))

    def topic_of(self, name: str) -> tuple[str, str]:
        request = {"topics": [{"name": name}], "allowAutoTopicCreation": False}
        (topic,) = self.quietly("METADATA", 12, request)["topics"]
        topic_id = topic.pop("topicId")
        self.note(f"{name} is described", topic)
        return name, topic_id

    def delete(self, name: str, requested: Callable[[], Body]) -> None:
        former = self.topic_of(name)
        self.call("deletion", "DELETE_TOPICS", 5, {"topicNames": [name], "timeoutMs": 30_000})
        wait_until(lambda: NOT_COORDINATOR in errors(requested()))
        assert self.topic_of(name)[1] != former[1]
        self.side.settle()

    def again(self, name: str, key: str, key_type: int, requested: Callable[[], Body]) -> None:
        self.call("is gone", "FIND_COORDINATOR", 3, {"key": key, "keyType": key_type})
        self.find(key, key_type)
        wait_until(lambda: not {14, 15, 16} & errors(requested()))
        self.side.settle()
        self.topic_of(name)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items() if name not in OF_TIME}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def assert_same(result: list[Responses]) -> None:
    for ours, theirs in zip(*result, strict=True):
        assert ours == theirs
