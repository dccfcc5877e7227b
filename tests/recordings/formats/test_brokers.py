"""Which broker a line is of: by addresses, by names around it, else by the file's name."""

import gzip
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.formats.brokers import by_name
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay.recording import read as read_history
from tests.support.requestlogs import RUNS, SINGLE, logs_of, read

MIXED = "leader_kill"
NUMBERS = {"broker-1": 1, "broker-2": 2, "broker-3": 3, "controller-100": 100}


def logs() -> dict[str, list[str]]:
    """The lines of each node, by its name."""
    return {
        file.name.split(".")[0]: gzip.decompress(file.read_bytes()).decode().splitlines()[:300]
        for file in logs_of(MIXED)
    }


def mixed(change: Callable[[str, str], str]) -> str:
    """The lines of all nodes in order of time, each changed by its node's name."""
    pairs = [(node, line) for node, lines in logs().items() for line in lines]
    pairs.sort(key=lambda pair: pair[1][:25])
    return "".join(f"{change(node, line)}\n" for node, line in pairs)


def counted(file: Path) -> Counter[int | None]:
    return Counter(document.broker for document in read(file)[0])


def written(tmp_path: Path, text: str, name: str = "all.log") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


EXPECTED = Counter({NUMBERS[node]: len(lines) for node, lines in logs().items()})


@pytest.mark.parametrize("run", RUNS)
def test_metadata_responses_identify_the_broker(run: str, tmp_path: Path) -> None:
    for file in logs_of(run)[:-1]:
        renamed = tmp_path / "some.log.gz"
        renamed.write_bytes(file.read_bytes())
        assert counted(renamed).keys() == {by_name(file)}


def test_a_controllers_log_is_identified_by_name() -> None:
    assert counted(logs_of("steady")[-1]).keys() == {100}


def test_a_rolled_log_is_identified_by_content() -> None:
    assert counted(SINGLE).keys() == {1}


def test_brokers_are_identified_by_addresses(tmp_path: Path) -> None:
    found = counted(written(tmp_path, mixed(lambda node, line: line)))
    assert found == Counter({1: EXPECTED[1], 2: EXPECTED[2], 3: EXPECTED[3], None: EXPECTED[100]})


PREFIXES = {
    "compose": lambda node, line: f"{node}  | {line}",
    "kubectl": lambda node, line: f"[pod/{node}/kafka] {line}",
    "JSON": lambda node, line: json.dumps({"message": line, "pod": node, "host": "worker-7"}),
}


@pytest.mark.parametrize("change", PREFIXES.values(), ids=PREFIXES)
def test_brokers_are_identified_by_names_around_lines(
    tmp_path: Path, change: Callable[[str, str], str]
) -> None:
    same = in_containers("localhost")
    found = counted(written(tmp_path, mixed(lambda node, line: change(node, same(node, line)))))
    assert found == EXPECTED


def in_containers(host: str) -> Callable[[str, str], str]:
    def change(node: str, line: str) -> str:
        ports = re.compile(r"(\"connection\":\")127.0.0.1:\d+")
        address = f"172.18.0.{NUMBERS[node]}:9092"
        line = ports.sub(rf"\g<1>{address}", line)
        return re.sub(
            r'("nodeId":(\d+),"host":)"[^"]*","port":\d+', rf'\1"{host}","port":9092', line
        )

    return change


def test_names_are_compared_with_hosts_in_metadata_responses(tmp_path: Path) -> None:
    """The broker `kafka-a` has the number 1: no number is in its name."""
    names = {"broker-1": "kafka-a", "broker-2": "kafka-b", "broker-3": "kafka-c"}
    numbers = {NUMBERS[node]: name for node, name in names.items()}

    def change(node: str, line: str) -> str:
        line = in_containers("H")(node, line)
        line = re.sub(
            r'("nodeId":(\d+),"host":)"H"',
            lambda m: f'{m[1]}"{numbers.get(int(m[2]), "controller")}.svc"',
            line,
        )
        return f"{names.get(node, 'controller-100')}  | {line}"

    assert counted(written(tmp_path, mixed(change))) == EXPECTED


def test_indistinguishable_brokers_are_rejected(tmp_path: Path) -> None:
    file = written(tmp_path, mixed(in_containers("localhost")), "broker-1.log")
    with pytest.raises(UserError, match=r"broker-1\.log has lines of several brokers") as raised:
        read(file)
    assert "--broker" in raised.value.hint
    reported: list[str] = []
    documents, _ = read(file, reading=FileReading(broker=4, warn=reported.append))
    assert {document.broker for document in documents} == {4}
    assert len(reported) == 1
    assert "lines of several brokers" in reported[0]


def test_members_of_an_archive_have_names(tmp_path: Path) -> None:
    file = tmp_path / "logs.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for node, lines in logs().items():
            change = in_containers("localhost")
            archive.writestr(f"{node}.log", "\n".join(change(node, line) for line in lines))
    assert counted(file) == EXPECTED


def test_a_controller_is_identified_by_its_requests(tmp_path: Path) -> None:
    named = mixed(lambda _, line: line.replace('"CONTROLLER"', '"CONTROLPLANE-9090"'))
    found = read_history([written(tmp_path, named)])
    plain = read_history([written(tmp_path, mixed(lambda _, line: line), "plain.log")])
    assert len(found.exchanges) == len(plain.exchanges)
    assert sum(found.left_out.values()) == sum(plain.left_out.values()) > 0
    assert any("CONTROLPLANE-9090" in reason for reason in found.left_out)


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
def test_names_contain_broker_ids(path: str, broker: int | None, tmp_path: Path) -> None:
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


def test_an_unidentified_broker_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"which broker requests\.log belongs to") as raised:
        read(unknown_log(tmp_path))
    assert "--broker" in raised.value.hint


def test_the_broker_id_may_be_given(tmp_path: Path) -> None:
    documents, _ = read(unknown_log(tmp_path), reading=FileReading(broker=4))
    assert [document.broker for document in documents] == [4]


@pytest.mark.parametrize("listener", ["1e400", "{}", "null", '"PLAINTEXT"'])
def test_a_listener_that_is_no_text_damages_its_line_alone(listener: str, tmp_path: Path) -> None:
    first, *rest = logs()["broker-1"]
    assert '"listener":"PLAINTEXT"' in first
    changed = first.replace('"listener":"PLAINTEXT"', f'"listener":{listener}')
    file = written(tmp_path, "\n".join([changed, *rest]))
    found = read_history([file], FileReading(broker=1))
    assert len(found.broken) == (listener != '"PLAINTEXT"')
