"""Each error in a recording, or in the broker model, has a rule."""

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.kafka_io.jars import fetch, kafka_jars
from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.explain.story import TimelineError
from brokertwin.recordings.history.bodies import errors
from brokertwin.recordings.replay.recording import read
from brokertwin.recordings.rules import RULES
from brokertwin.settings import default_home
from tests.support.goldens import golden
from tests.support.sources import ROOT, name_of, python_files

CLASS = re.compile(r"\b([A-Z]\w*[a-z]\w*)(?:\.(\w+))?")
EXCEPTIONS = {
    Error.CORRUPT_MESSAGE: "CorruptRecordException",
    Error.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    Error.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    Error.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    Error.INVALID_REGULAR_EXPRESSION: "InvalidRegularExpression",
    Error.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
}
"""Of errors whose exceptions go by other names."""

CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz"))


def test_every_error_of_the_captures_is_explained() -> None:
    given = {code for exchange in read(CAPTURES).exchanges for code in errors(exchange.response)}
    without = {error_name(code) for code in given if TimelineError(code).rule is None}
    assert without == set()
    assert len(given) > 10


@pytest.mark.parametrize("error", RULES, ids=lambda error: error.name)
def test_rule_has_meaning_source_and_advice(error: Error) -> None:
    rule = RULES[error]
    assert all(part.strip() for part in rule[:4])
    assert rule.who.endswith(".")
    assert rule.why.endswith(".")
    assert rule.do.endswith(".")


GIVEN = re.compile(r"\bError\.([A-Z][A-Z_]+)\b")


def given_in(file: Path) -> set[str]:
    return set(GIVEN.findall(file.read_text(encoding="utf-8"))) & set(Error.__members__)


def test_every_error_that_is_given_here_has_a_rule() -> None:
    files = [file for file in python_files("state", "gateway") if file.name != "errors.py"]
    named = {name: file for file in files for name in given_in(file)}
    named.pop(Error.NONE.name)
    assert len(named) > 80
    missing = {name: name_of(file) for name, file in named.items() if Error[name] not in RULES}
    assert missing == {}, "write it into recordings/rules, then make error-pages"


def test_the_file_of_a_rule_gives_the_error() -> None:
    files = {error_name(error): ROOT / rule.file for error, rule in RULES.items() if rule.file}
    assert {name: file for name, file in files.items() if name not in given_in(file)} == {}


class KafkasClasses:
    """The classes in the jars of the broker that the project pins, by their simple names."""

    def __init__(self) -> None:
        self._files: dict[str, list[tuple[zipfile.ZipFile, str]]] = defaultdict(list)
        for jar in fetch(kafka_jars(), default_home()):
            archive = zipfile.ZipFile(jar)
            for name in archive.namelist():
                if name.endswith(".class") and "kafka" in name:
                    for part in Path(name).stem.split("$"):
                        self._files[part].append((archive, name))

    def has(self, name: str, member: str) -> bool:
        return any(member.encode() in content for content in self._contents(name))

    def gives(self, name: str, error: Error) -> bool:
        usual = f"{error.name.title().replace('_', '')}Exception"
        words = (error.name, EXCEPTIONS.get(error, usual))
        return any(word.encode() in each for word in words for each in self._contents(name))

    def _contents(self, name: str) -> Iterator[bytes]:
        return (archive.read(file) for archive, file in self._files.get(name, ()))


def named_by(source: str) -> list[tuple[str, str]]:
    """Return the classes that a rule's source names, each with a member or an empty text."""
    if "until Kafka" in source or "since Kafka" in source:  # the jars are those of 4.3.1
        return []
    return CLASS.findall(re.sub(r"KIP-\d+|Kafka\b", "", source))


@pytest.mark.compares
def test_a_rules_source_is_in_kafkas_jars_and_names_the_error() -> None:
    """A class, or a member of one; and one of them gives the error."""
    requests = [
        (error.name, name, member)
        for error, rule in RULES.items()
        for name, member in named_by(rule.source)
    ]

    def send() -> list[list[bool]]:
        kafka = KafkasClasses()
        return [
            [kafka.has(name, member), kafka.gives(name, Error[error])]
            for error, name, member in requests
        ]

    reported = golden("explain/rule_sources", send, scenario=requests)
    wrong = [each for each, (has, _) in zip(requests, reported, strict=True) if not has]
    given = {error for (error, _, _), (_, gives) in zip(requests, reported, strict=True) if gives}
    assert wrong == []
    assert {error for error, _, _ in requests} - given == set()
