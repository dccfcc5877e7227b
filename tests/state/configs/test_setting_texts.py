"""What each setting is for: every setting has a sentence, and none a sentence that is Kafka's."""

import base64
import hashlib
import re
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.state.configs.broker_config import SETTINGS
from brokertwin.state.configs.client_metrics import CLIENT_METRICS_CONFIGS
from brokertwin.state.configs.group_configs import GROUP_CONFIGS
from brokertwin.state.configs.setting_texts import OF_BROKERS, text_of
from brokertwin.state.configs.texts_of_topics import TEXTS as OF_TOPICS
from brokertwin.state.configs.topic_configs import TOPIC_CONFIGS
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden
from tests.support.machine import Bench

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
OF_GROUPS = GROUP_CONFIGS.keys() | CLIENT_METRICS_CONFIGS.keys()
RESOURCES = ((BROKER, "1"), (TOPIC, "t"), (GROUP, "g"))
WORDS_IN_A_ROW = 9


def test_each_setting_has_a_sentence() -> None:
    known = [*SETTINGS, *OF_GROUPS]
    told = [text_of(name) for name in known] + [text_of(name, True) for name in TOPIC_CONFIGS]
    for name, text in zip([*known, *TOPIC_CONFIGS], told, strict=True):
        assert text is not None, name
        assert re.fullmatch(r"[A-Z].{10,200}\.", text), name


def test_there_is_no_sentence_of_a_setting_that_there_is_not() -> None:
    assert OF_BROKERS.keys() <= SETTINGS.keys() | OF_GROUPS
    assert OF_TOPICS.keys() == TOPIC_CONFIGS.keys()
    assert text_of("no.such.setting") is None
    assert text_of("group.share.no.such") is None
    assert text_of("log.dirs", is_of_topic=True) is None


def test_bounds_of_groups_are_told_apart() -> None:
    found = {
        text_of(f"group.{kind}.{bound}session.timeout.ms")
        for kind in ("consumer", "share", "streams")
        for bound in ("", "min.", "max.")
    }
    assert len(found) == 9


@pytest.mark.parametrize(("version", "asks"), [(1, True), (3, True), (3, False), (4, True)])
def test_it_is_told_to_who_asks_from_version_3_on(version: int, asks: bool) -> None:
    body: dict[str, Any] = {"resources": [{"resourceType": BROKER, "resourceName": "1"}]}
    answer = Bench().request("DESCRIBE_CONFIGS", version, body | {"includeDocumentation": asks})
    found = {each.get("documentation") for each in answer["results"][0]["configs"]}
    if version < 3 or not asks:
        assert found == {None}
    else:
        assert text_of("num.partitions") in found
        assert None not in found


def documented(client: Client) -> dict[tuple[int, str], str | None]:
    """The documentation of each setting, by the kind of resource and its name."""
    client.topic("t")
    resources = [{"resourceType": kind, "resourceName": name} for kind, name in RESOURCES]
    body = {"resources": resources, "includeDocumentation": True}
    answer = client.call("DESCRIBE_CONFIGS", 4, body)
    return {
        (result["resourceType"], config["name"]): config["documentation"]
        for result in answer["results"]
        for config in result["configs"]
    }


def runs_of_words(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + WORDS_IN_A_ROW]) for at in range(len(words) - WORDS_IN_A_ROW + 1)}


def hashed(text: str | None) -> str | None:
    """Return a text's runs of words as hashes: a golden has no texts of Kafka's."""
    if text is None:
        return None
    return " ".join(sorted(map(hash_of, runs_of_words(text))))


def hash_of(run: tuple[str, ...]) -> str:
    return base64.b64encode(hashlib.sha256(" ".join(run).encode()).digest()[:6]).decode()


@pytest.mark.compares
def test_settings_are_explained_in_other_words_than_kafkas(real_kafka: Address) -> None:
    def ask() -> list[list[Any]]:
        with Client(real_kafka) as client:
            return [[*key, hashed(text)] for key, text in documented(client).items()]

    found = golden("configs/documented", ask, scenario=[RESOURCES, WORDS_IN_A_ROW])
    theirs = {(kind, name): said for kind, name, said in found}
    with running_gateway() as running, running.client() as client:
        ours = documented(client)
    assert {key for key in theirs if theirs[key] is None} == set()
    assert {key for key in theirs if ours.get(key) is None} == set()
    for key, text in ours.items():
        runs = set(map(hash_of, runs_of_words(text or "")))
        assert not runs & set((theirs.get(key) or "").split()), key


def test_the_words_are_compared() -> None:
    text = "a b c d e f g h i j"
    assert runs_of_words(text) & runs_of_words(f"x {text} y")
    assert not runs_of_words(text) & runs_of_words(text.replace("e", "x"))
    assert set((hashed(text) or "").split()) == set(map(hash_of, runs_of_words(text)))
