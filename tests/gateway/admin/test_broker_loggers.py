"""Logger levels of brokers: responses compared with Kafka, and log output."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from brokertwin.cli import logs
from brokertwin.gateway.admin.broker_loggers import LOGGERS
from brokertwin.gateway.edge_fields import Address
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
    """Restore levels and handlers after a test."""
    before = structlog.get_config()
    logs.configure(Settings())
    yield
    for name in LOGGERS.values():
        logging.getLogger(name).setLevel(logging.NOTSET)
    logs.configure(Settings())
    structlog.configure(**before)


class Side:
    """A broker and one of its loggers, which responses call `L`."""

    def __init__(self, client: Client, logger: str) -> None:
        self._client, self._logger = client, logger
        brokers = client.call("METADATA", 12, topics=[])["brokers"]
        self._broker = str(brokers[0]["nodeId"])

    def describe(self, version: int, *resources: tuple[str, list[str] | None]) -> Any:
        """Describe loggers of brokers; before the last one a topic that does not exist."""
        wanted = [
            {
                "resourceType": LOGGER,
                "resourceName": name.replace("ME", self._broker),
                "configurationKeys": keys and [key.replace("L", self._logger) for key in keys],
            }
            for name, keys in resources
        ]
        wanted.insert(-1, GONE | {"configurationKeys": None})
        body = {"resources": wanted, "includeSynonyms": True, "includeDocumentation": version > 3}
        return self._plain(self._client.call("DESCRIBE_CONFIGS", version, body)["results"])

    def alter(self, *alterations: Any, name: str = "ME", **more: Any) -> Any:
        """Alter levels; `more` has `is_checked_only` and `others`, further resources."""
        configs = [
            {"name": key.replace("L", self._logger), "configOperation": change, "value": level}
            for key, change, level in alterations
        ]
        own = {"resourceType": LOGGER, "resourceName": name.replace("ME", self._broker)}
        own["configs"] = configs
        resources = [*more.get("others", ()), own, *[own] * more.get("again", 0)]
        body = {"resources": resources, "validateOnly": more.get("is_checked_only", False)}
        response = self._client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        return self._plain(response["responses"])

    def _plain(self, received: Any) -> Any:
        """Return a response in which the logger is `L` and the broker `ME`."""
        if isinstance(received, dict):
            return {key: self._plain(value) for key, value in received.items()}
        if isinstance(received, list):
            return [self._plain(each) for each in received]
        if isinstance(received, str):
            plain = received.replace(self._logger, "L").replace(
                f"xpected {self._broker}", "xpected ME"
            )
            return "ME" if received == self._broker else plain
        return received


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
        for side in sides:  # both start unaltered
            side.alter(("L", SET, "INFO"), ("root", SET, "INFO"))
        for version in (1, 4):
            wanted: list[tuple[str, list[str] | None]] = [
                ("ME", ["root"]),
                ("ME", ["L", "nope"]),
                ("", None),
                ("77", []),
                ("x", []),
            ]
            real, received = ([side.describe(version, each) for each in wanted] for side in sides)
            assert received == real
        for alterations, more in ALTERATIONS:
            real, received = (side.alter(*alterations, **more) for side in sides)
            assert received == real, (alterations, more)
            real, received = (side.describe(4, ("ME", ["L"]), ("ME", ["root"])) for side in sides)
            assert received == real, (alterations, more)


def test_message_below_the_level_of_its_logger_is_not_logged(
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
            configs = other.call("DESCRIBE_CONFIGS", 4, body)["results"][0]["configs"]
            assert {each["name"]: each["value"] for each in configs} == dict.fromkeys(
                LOGGERS, "FATAL"
            )
