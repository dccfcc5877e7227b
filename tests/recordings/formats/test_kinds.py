"""Files without recordings are rejected with their kind."""

import struct
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.replay.recording import read as read_history
from tests.support.batches import batch
from tests.support.console import brokertwin

HEADER = "RequestHeader(apiKey=FETCH, apiVersion=11, clientId=a, correlationId=2)"
FILES = {
    "text request log": f"[2022-03-09 15:15:38,428] DEBUG Completed request:{HEADER} -- {{x=1}}",
    "request log of a Kafka before 0.11": "[2016-09-02 16:54:01,933] DEBUG Completed request:"
    "{api_key=12,api_version=0,correlation_id=6,client_id=a} -- {group_id=g} from connection c;",
    "TRACE log of KafkaApis": f"[2022-03-09 15:15:38] TRACE [KafkaApi-1] Handling request:{HEADER}",
    "KafkaJS": '{"level":"DEBUG","logger":"kafkajs","message":"[Connection] Request Fetch(key: 1,'
    ' version: 4)","correlationId":13}',
    "journal entry without its text": '{"__REALTIME_TIMESTAMP":"1795760554623501","MESSAGE":null}',
    "librdkafka": "%7|1651858329.428|SEND|rdkafka#consumer-1| [thrd:main]: Sent FetchRequest",
    "Java client": "2026-06-03 11:49:05 DEBUG NetworkClient - [Consumer clientId=a, groupId=g]"
    " Sending FETCH request with header RequestHeader(apiKey=FETCH)",
    "server.log": "[2026-06-03 11:49:05,758] INFO [GroupCoordinator id=0] Stabilized group g"
    " (kafka.coordinator.group.GroupCoordinator)",
    "formatter": "[g,scans,0]::OffsetAndMetadata(offset=6, leaderEpoch=Optional[2])",
    "rows of __consumer_offsets": '{"key":{"type":1,"data":{"group":"g","topic":"scans"}}}',
    "table of a group's offsets": "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG",
    "table of groups": "GROUP  COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE  #MEMBERS",
    "kafka-transactions.sh": "TransactionalId\tCoordinator\tProducerId\tTransactionState",
    "rows of __transaction_state": "t::TransactionMetadata(transactionalId=t, producerId=1)",
    "kcat": '{"topic":"scans","partition":1,"offset":5,"tstype":"create","ts":1,"payload":"x"}',
    "kafka-dump-log.sh": "Dumping /var/lib/kafka/scans-1/00000000000000000000.log",
}


ENTRY = (
    '{"header": {"type": "REQUEST", "apiKey": "METADATA", "apiVersion": 9, "correlationId": 1}}\n'
)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_another_kind_is_rejected_with_its_kind(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "given.log"
    file.write_text(FILES[kind] + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=kind.replace(".", r"\.")) as raised:
        read_history([file])
    assert raised.value.message.startswith("No exchange was read: 1 of 1 lines")
    assert raised.value.hint


BINARY = {
    **{
        f"packet capture, {order}{magic:x}": struct.pack(f"{order}IHHiIII", magic, 2, 4, *[0] * 4)
        for order in "<>"
        for magic in (0xA1B2C3D4, 0xA1B23C4D)
    },
    **{
        f"packet capture, {order}pcapng": b"\n\r\r\n"
        + struct.pack(f"{order}IIHHqI", 28, 0x1A2B3C4D, 1, 0, -1, 28)
        for order in "<>"
    },
    "log segment of a topic": batch(b"\xff" * 40, timestamps=[1_795_165_925_412]),
}


@pytest.mark.parametrize("kind", BINARY)
def test_a_binary_file_is_rejected_with_its_kind(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "given.log"
    file.write_bytes(BINARY[kind] + bytes(range(256)))
    with pytest.raises(UserError, match=f"of another kind: {kind.partition(',')[0]}\\.") as raised:
        read_history([file])
    assert raised.value.hint


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "07:26:44.939 [DEBUG] connection opened to broker; addr: b:1, broker: seed_0",
            "franz-go or Sarama client",
        ),
        (
            "2026-11-27 07:26:44.939 [DEBUG] wrote JoinGroup v9; broker: 1, bytes_written: 95",
            "franz-go or Sarama client",
        ),
        (
            "[sarama] 2026/11/27 07:26:50.940814 client/metadata fetching metadata for all topics",
            "franz-go or Sarama client",
        ),
        ("2026/11/27 07:26:51 entering loop for consumer group, g6", "Go client"),
        (
            "07:22:05 DEBUG kafka.net.connection <KafkaConnection node_id=1>: Response 2",
            "kafka-python or aiokafka client",
        ),
        (
            "2026-11-27 07:22:05 DEBUG aiokafka.conn <AIOKafkaConnection host=b> Request 1",
            "kafka-python or aiokafka client",
        ),
    ],
)
def test_logs_of_clients_are_refused_by_name(tmp_path: Path, line: str, kind: str) -> None:
    file = tmp_path / "client.log"
    file.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"log of a {kind}"):
        read_history([file])


@pytest.mark.parametrize("command", ["ingest", "audit", "replay", "replication"])
def test_commands_refuse_it_with_an_exit_code(
    tmp_path: Path, empty_directory: Path, command: str
) -> None:
    file = tmp_path / "given.log"
    file.write_text(FILES["server.log"] + "\n", encoding="utf-8")
    words = ["--out", "x.jsonl"] if command == "ingest" else []
    done = brokertwin(command, file, *words, cwd=empty_directory)
    assert done.returncode == 2
    assert "Kafka's server.log" in done.stderr
    assert "kafka.request.logger to DEBUG" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "GET /x 200\n",
        "{}\n",
        "\x00\x01\n",
        ENTRY,
    ],
)
def test_an_empty_result_is_an_error(tmp_path: Path, empty_directory: Path, text: str) -> None:
    file = tmp_path / "given.log"
    file.write_text(text, encoding="utf-8")
    done = brokertwin("ingest", file, "--out", "x.jsonl", cwd=empty_directory)
    assert done.returncode != 0
    assert not (empty_directory / "x.jsonl").exists()
