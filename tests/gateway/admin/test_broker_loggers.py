"""Levels of loggers through the gateway, compared with Kafka's, and what is then written."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from brokertwin.cli import logs
from brokertwin.gateway.admin.broker_loggers import LOGGERS
from brokertwin.gateway.answers import Address
from brokertwin.settings import Settings
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import Track

GOLDEN = "configs/broker_loggers"
LOGGER, TOPIC = 8, 2
SET, DELETE, APPEND, SUBTRACT, UNKNOWN = 0, 1, 2, 3, 9
OURS, THEIRS = "brokertwin.gateway", "state.change.logger"
GONE = {"resourceType": TOPIC, "resourceName": "nowhere"}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Levels and what writes are gone after a test."""
    before = structlog.get_config()
    logs.configure(Settings())
    yield
    for name in LOGGERS.values():
        logging.getLogger(name).setLevel(logging.NOTSET)
    logs.configure(Settings())
    structlog.configure(**before)


class Side:
    """A broker and one of its loggers, which answers call `L`."""

    def __init__(self, client: Client, logger: str) -> None:
        self._client, self._logger = client, logger
        brokers = client.call("METADATA", 12, {"topics": []})["brokers"]
        self._broker = str(brokers[0]["nodeId"])

    def describe(self, version: int, *resources: tuple[str, list[str] | None]) -> Any:
        """Loggers of brokers, and a topic that is not there before the last of them."""
        asked = [
            {
                "resourceType": LOGGER,
                "resourceName": name.replace("ME", self._broker),
                "configurationKeys": keys and [key.replace("L", self._logger) for key in keys],
            }
            for name, keys in resources
        ]
        asked.insert(-1, GONE | {"configurationKeys": None})
        body = {"resources": asked, "includeSynonyms": True, "includeDocumentation": version > 3}
        return self._plain(self._client.call("DESCRIBE_CONFIGS", version, body)["results"])

    def alter(self, *alterations: Any, name: str = "ME", **more: Any) -> Any:
        """Levels; `more` has `is_checked_only` and `others`, further resources."""
        configs = [
            {"name": key.replace("L", self._logger), "configOperation": change, "value": level}
            for key, change, level in alterations
        ]
        own = {"resourceType": LOGGER, "resourceName": name.replace("ME", self._broker)}
        own["configs"] = configs
        resources = [*more.get("others", ()), own, *[own] * more.get("again", 0)]
        body = {"resources": resources, "validateOnly": more.get("is_checked_only", False)}
        answer = self._client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        return self._plain(answer["responses"])

    def _plain(self, told: Any) -> Any:
        """An answer in which the logger is `L` and the broker `ME`."""
        if isinstance(told, dict):
            return {key: self._plain(value) for key, value in told.items()}
        if isinstance(told, list):
            return [self._plain(each) for each in told]
        if isinstance(told, str):
            plain = told.replace(self._logger, "L").replace(f"xpected {self._broker}", "xpected ME")
            return "ME" if told == self._broker else plain
        return told


ALTERATIONS: list[tuple[list[Any], dict[str, Any]]] = [
    ([("L", SET, "DEBUG")], {}),
    ([("L", SET, "FATAL")], {"is_checked_only": True}),
    ([("L", SET, "WARN")], {"others": [GONE | {"configs": []}]}),
    ([("L", SET, "debug")], {}),
    ([("L", SET, "OFF"), ("nope", SET, "INFO")], {}),
    ([("nope", SET, "OFF")], {}),
    ([("nope", DELETE, None)], {}),
    ([("L", SET, None), ("root", SET, None)], {}),
    ([("L", SET, "DEBUG"), ("L", SET, "INFO")], {}),
    ([("L", APPEND, "DEBUG")], {}),
    ([("L", SUBTRACT, "DEBUG")], {}),
    ([("L", UNKNOWN, "DEBUG")], {}),
    ([("root", DELETE, None)], {}),
    ([("L", SET, "DEBUG")], {"name": "77"}),
    ([("L", SET, "DEBUG")], {"name": ""}),
    ([("L", SET, "DEBUG")], {"name": "x"}),
    ([("L", SET, "DEBUG")], {"again": 1}),
    ([], {}),
    ([("L", SET, "TRACE"), ("root", SET, "ERROR")], {}),
    ([("L", DELETE, None)], {}),
    ([("root", SET, "INFO")], {}),
]


def test_levels_are_described_and_altered_like_kafkas(real_kafka: Address, track: Track) -> None:
    with (
        running_gateway() as gateway,
        gateway.client() as ours,
        track.connection(lambda: Client(real_kafka)) as theirs,
    ):
        sides = [Side(theirs, THEIRS), Side(ours, OURS)]
        for side in sides:  # both as if nobody had altered anything
            side.alter(("L", SET, "INFO"), ("root", SET, "INFO"))
        for version in (1, 4):
            asked: list[tuple[str, list[str] | None]] = [
                ("ME", ["root"]),
                ("ME", ["L", "nope"]),
                ("", None),
                ("77", []),
                ("x", []),
            ]
            real, told = ([side.describe(version, each) for each in asked] for side in sides)
            assert told == real
        for alterations, more in ALTERATIONS:
            real, told = (side.alter(*alterations, **more) for side in sides)
            assert told == real, (alterations, more)
            real, told = (side.describe(4, ("ME", ["L"]), ("ME", ["root"])) for side in sides)
            assert told == real, (alterations, more)


def test_what_is_below_the_level_of_its_logger_is_not_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def written() -> list[str]:
        for name in (OURS, "brokertwin.other"):
            for level in ("debug", "info", "error"):
                getattr(structlog.get_logger(name), level)(f"{name}-{level}")
        shown = capsys.readouterr().err
        return [word for word in shown.split() if "-" in word and word.startswith("brokertwin")]

    rest = ["brokertwin.other-info", "brokertwin.other-error"]
    with running_gateway(brokers=2) as gateway, gateway.client() as client:
        side = Side(client, OURS)
        assert written() == [f"{OURS}-info", f"{OURS}-error", *rest]
        side.alter(("L", SET, "ERROR"))
        assert written() == [f"{OURS}-error", *rest]
        side.alter(("L", SET, "DEBUG"), ("root", SET, "FATAL"))
        assert written() == [f"{OURS}-{level}" for level in ("debug", "info", "error")]
        side.alter(("L", DELETE, None))
        assert written() == []
        with gateway.client(2) as other:
            body = {"resources": [{"resourceType": LOGGER, "resourceName": "2"}]}
            found = other.call("DESCRIBE_CONFIGS", 4, body)["results"][0]["configs"]
            assert {each["name"]: each["value"] for each in found} == dict.fromkeys(
                LOGGERS, "FATAL"
            )
