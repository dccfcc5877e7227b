"""Which broker a log is of: by the addresses in it, else by its name."""

from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.streaming.ingest.brokers import Found, broker_of, by_name
from brokertwin.streaming.ingest.pipeline import Reading
from tests.support.requestlogs import RUNS, SINGLE, logs_of, read

ADDRESSES = "the addresses in its Metadata answers"


@pytest.mark.parametrize("run", RUNS)
def test_a_brokers_own_metadata_answers_tell(run: str, tmp_path: Path) -> None:
    for file in logs_of(run):
        renamed = tmp_path / "some.log.gz"
        renamed.write_bytes(file.read_bytes())
        found = broker_of(renamed)
        number = by_name(file)
        assert found == (None if number == 100 else Found(number or 0, ADDRESSES)), file


def test_a_controllers_log_is_known_by_its_name() -> None:
    assert broker_of(logs_of("steady")[-1]) == Found(100, "its name")


def test_a_rolled_log_of_one_broker_is_known_by_its_content() -> None:
    assert broker_of(SINGLE) == Found(1, ADDRESSES)


@pytest.mark.parametrize(
    ("path", "broker"),
    [
        ("broker-1.kafka-request.log", 1),
        ("controller-100.kafka-request.log.gz", 100),
        ("my-cluster-kafka-2.log", 2),
        ("kafka-3/kafka-request.log.2026-11-21-12", 3),
        ("broker_7/x.log", 7),
        ("kafka-request.log", None),
        ("kafka-request.log.2026-11-21-12", None),
        ("kafka-2.8-request.log", None),
    ],
)
def test_names_tell_numbers(path: str, broker: int | None, tmp_path: Path) -> None:
    assert by_name(tmp_path / "logs" / path) == broker


def unknown_log(directory: Path) -> Path:
    file = directory / "requests.log"
    file.write_text(
        '[2026-11-21 01:22:27,944] DEBUG Completed request:{"requestHeader":{"requestApiKey":18,'
        '"requestApiVersion":3},"request":{},"response":{},"connection":"a:1-b:2-0-0",'
        '"totalTimeMs":1.0}\n',
        encoding="utf-8",
    )
    return file


def test_a_log_of_nobody_knows_which_broker_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"which broker requests\.log belongs to") as raised:
        read(unknown_log(tmp_path))
    assert "--broker" in raised.value.hint


def test_the_number_may_be_given(tmp_path: Path) -> None:
    documents, _ = read(unknown_log(tmp_path), reading=Reading(broker=4))
    assert [document.broker for document in documents] == [4]
