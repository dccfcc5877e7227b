"""The request log of Kafka before 2.8, and KafkaApis at TRACE."""

import json
from pathlib import Path

import pytest

from brokertwin.cli.recordings.explain import Where, _clients, _groups, _producers, _transactions
from brokertwin.errors import UserError
from brokertwin.recordings.formats.documents import Document, Texts
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.readers import FormatReader, Origin
from tests.support.console import brokertwin

TIMES = (
    "totalTime:42.015,requestQueueTime:0.861,localTime:40.632,remoteTime:0.0,throttleTime:0,"
    "responseQueueTime:0.211,sendTime:0.309,securityProtocol:PLAINTEXT,principal:User:al ice,"
    "listener:PLAIN-1"
)


def _line(header: str, bodies: str, time: str = "02:43:32,917", more: str = "") -> str:
    return (
        f"[2026-11-27 {time}] DEBUG Completed request:RequestHeader({header}) -- {bodies}"
        f" from connection 10.0.0.5:9092-10.0.0.9:47228-1;{TIMES}{more} (kafka.request.logger)"
    )


COMMIT_27 = _line(
    "apiKey=OFFSET_COMMIT, apiVersion=8, clientId=reader-a, correlationId=29",
    "{group_id=parcels,generation_id=1,member_id=m-1,group_instance_id=null,topics=[{name=scans,"
    "partitions=[{partition_index=0,committed_offset=7,committed_leader_epoch=-1,"
    "committed_metadata=,_tagged_fields={}}],_tagged_fields={}}],_tagged_fields={}},response:"
    "{throttle_time_ms=0,topics=[{name=scans,partitions=[{partition_index=0,error_code=0,"
    "_tagged_fields={}}],_tagged_fields={}}],_tagged_fields={}}",
    more=",clientInformation:ClientInformation(softwareName=apache-kafka-java)",
)
COMMIT_21 = _line(
    "apiKey=OFFSET_COMMIT, apiVersion=6, clientId=reader-b, correlationId=30",
    "{group_id=parcels,generation_id=1,member_id=m-1,topics=[{topic=scans,partitions=[{partition=0"
    ",offset=3,leader_epoch=-1,metadata=}]}]},response:{throttle_time_ms=0,responses=[{topic=scans,"
    "partition_responses=[{partition=0,error_code=0}]}]}",
    "02:43:33,917",
)
NO_RESPONSE = COMMIT_21[: COMMIT_21.index(",response:")] + (
    ",response:none" + COMMIT_21[COMMIT_21.index(" from connection") :]
)
JOIN = _line(
    "apiKey=JOIN_GROUP, apiVersion=7, clientId=reader-a, correlationId=12",
    "{group_id=parcels,session_timeout_ms=10000,rebalance_timeout_ms=300000,member_id=,"
    "group_instance_id=null,protocol_type=consumer,protocols=[{name=range,"
    "metadata=java.nio.HeapByteBuffer[pos=0 lim=21 cap=21],_tagged_fields={}}],_tagged_fields={}},"
    "response:{throttle_time_ms=0,error_code=79,generation_id=-1,protocol_type=null,leader=,"
    "member_id=reader-a-861c9d17,members=[],_tagged_fields={}}",
)
END_TXN = _line(
    "apiKey=END_TXN, apiVersion=1, clientId=writer, correlationId=13",
    "{transactional_id=tx-1,producer_id=0,producer_epoch=0,transaction_result=true},response:"
    "{throttle_time_ms=0,error_code=47}",
)
TRACE = (
    "[2026-08-08 07:30:42,834] TRACE [KafkaApi-7] Handling request:RequestHeader(apiKey="
    "OFFSET_COMMIT, apiVersion=8, clientId=reader-a, correlationId=2, headerVersion=1) --"
    " OffsetCommitRequestData(groupId='parcels', generationId=4, memberId='m-1', topics=["
    "OffsetCommitRequestTopic(name='scans', partitions=[OffsetCommitRequestPartition("
    "partitionIndex=0, committedOffset=20, committedLeaderEpoch=-1, committedMetadata='')])]) from"
    " connection 10.0.0.5:9096-10.0.0.9:25530-59;securityProtocol:SASL_SSL,principal:User:reader"
    " (kafka.server.KafkaApis)"
)


def _documents(*texts: str) -> list[Document]:
    lines = [SourceLine("any.log", at, text.encode()) for at, text in enumerate(texts, 1)]
    return [
        each
        for each in FormatReader(Origin("any.log", texts=Texts.ALL)).read(
            iter(lines), is_whole=True
        )
        if isinstance(each, Document)
    ]


def _where(tmp_path: Path, *texts: str, broker: int | None = 1) -> Where:
    file = tmp_path / "old.log"
    file.write_text("\n".join(texts))
    return Where(files=[file], broker=broker)


@pytest.mark.parametrize("text", [COMMIT_27, COMMIT_21])
def test_fields_have_the_names_of_kafka_4(text: str) -> None:
    (document,) = _documents(text)
    body = json.loads(bytes(document.request))
    assert body["generationIdOrMemberEpoch"] == 1
    (topic,) = body["topics"]
    (partition,) = topic["partitions"]
    assert topic["name"] == "scans"
    assert partition["partitionIndex"] == 0
    assert partition["committedOffset"] in (7, 3)
    assert partition["committedMetadata"] == ""
    response = json.loads(bytes(document.response))
    assert response["topics"] == [
        {"name": "scans", "partitions": [{"partitionIndex": 0, "errorCode": 0}]}
    ]
    assert document.connection == "10.0.0.5:9092-10.0.0.9:47228-1"
    assert json.loads(bytes(document.rest["principal"])) == "User:al ice"
    assert json.loads(bytes(document.rest["listener"])) == "PLAIN-1"
    assert json.loads(bytes(document.rest["responseTime"])) == 42.015


def test_the_arrival_is_the_time_of_the_line_less_the_total_time() -> None:
    (document,) = _documents(COMMIT_27)
    assert document.time == 1795747412917 - 43


def test_a_group_is_explained(tmp_path: Path) -> None:
    group = _groups(_where(tmp_path, JOIN, COMMIT_27, COMMIT_21), "parcels")
    join, _, back = group.story()
    assert [each.code for each in join.refused] == [79]
    assert back.notes[0].startswith("scans-0 goes back from 7 (client reader-a's OFFSET_COMMIT")
    assert group.ending() == [
        "scans-0 at 3, by client reader-b's OFFSET_COMMIT at 02:43:33.874 (old.log:3)"
    ]


def test_a_transaction_is_explained(tmp_path: Path) -> None:
    (entry,) = _producers(_where(tmp_path, END_TXN), "tx-1").story()
    assert entry.said == "tx-1, producer 0 epoch 0, commit"
    assert [each.code for each in entry.refused] == [47]


def test_a_transaction_of_kafka_2_1_has_its_partitions(tmp_path: Path) -> None:
    added = _line(
        "apiKey=ADD_PARTITIONS_TO_TXN, apiVersion=1, clientId=writer, correlationId=5",
        "{transactional_id=tx-1,producer_id=0,producer_epoch=1,topics=[{topic=scans,partitions=[0]"
        "}]},response:{throttle_time_ms=0,errors=[{topic=scans,partition_errors=[{partition=0,"
        "error_code=0}]}]}",
    )
    (entry,) = _transactions(_where(tmp_path, added), "tx-1").story()
    assert entry.notes == ["transaction 1 begins", "adds partition scans-0"]


@pytest.mark.parametrize(("text", "offset"), [(NO_RESPONSE, 3), (TRACE, 20)])
def test_requests_without_responses_are_explained(tmp_path: Path, text: str, offset: int) -> None:
    group = _groups(_where(tmp_path, text), "parcels")
    (entry,) = group.story()
    assert entry.notes == ["the log has no response"]
    assert group.ending()[0].startswith(f"scans-0 at {offset}, by client reader-")
    client = _clients(_where(tmp_path, text), entry.client)
    assert client.ending()[1] == "the log has no responses"


def _handled(header: str, body: str, time: str) -> str:
    """A line of KafkaApis at TRACE, as Kafka 3.4 writes it."""
    return (
        f"[2026-11-27 06:26:{time}] TRACE [KafkaApi-1] Handling request:RequestHeader({header},"
        f" headerVersion=2) -- {body} from connection 127.0.0.1:55339-127.0.0.1:58080-3;"
        "securityProtocol:PLAINTEXT,principal:User:ANONYMOUS (kafka.server.KafkaApis)"
    )


IN_TRANSACTION = (
    _handled(
        "apiKey=INIT_PRODUCER_ID, apiVersion=4, clientId=tx-1, correlationId=3",
        "InitProducerIdRequestData(transactionalId='pay', transactionTimeoutMs=30000,"
        " producerId=-1, producerEpoch=-1)",
        "54,206",
    ),
    _handled(
        "apiKey=END_TXN, apiVersion=1, clientId=tx-1, correlationId=12",
        "EndTxnRequestData(transactionalId='pay', producerId=1, producerEpoch=0, committed=false)",
        "54,905",
    ),
    _handled(
        "apiKey=WRITE_TXN_MARKERS, apiVersion=1, clientId=broker-1-txn-marker-sender,"
        " correlationId=1",
        "WriteTxnMarkersRequestData(markers=[WritableTxnMarker(producerId=1, producerEpoch=0,"
        " transactionResult=false, topics=[WritableTxnMarkerTopic(name='payments',"
        " partitionIndexes=[0])], coordinatorEpoch=0)])",
        "54,919",
    ),
)


def test_a_producer_without_responses_is_explained(tmp_path: Path) -> None:
    init, end = _producers(_where(tmp_path, *IN_TRANSACTION), "pay").story()
    assert (init.said, end.said) == ("pay", "pay, producer 1 epoch 0, abort")
    assert init.notes == end.notes == ["the log has no response"]


def test_kafka_apis_names_its_broker(tmp_path: Path) -> None:
    (entry,) = _clients(_where(tmp_path, TRACE, broker=None), "reader-a").story()
    assert entry.said.endswith("no response of broker 7 in the log")


def test_cut_lines_and_apis_without_a_name_are_left_out(tmp_path: Path) -> None:
    cut = [COMMIT_27[:end] for end in range(60, COMMIT_27.index(" from connection"), 40)]
    unknown = COMMIT_27.replace("OFFSET_COMMIT", "UPDATE_METADATA")
    assert len(_documents(*cut, unknown, COMMIT_27)) == 1
    with pytest.raises(UserError, match=r"The first reason: old\.log:1: the "):
        _groups(_where(tmp_path, *cut), "parcels")


def test_it_is_read_in_the_json_of_a_container_runtime() -> None:
    plain = _documents(COMMIT_27, TRACE)
    wrapped = _documents(
        *(
            json.dumps({"log": f"{text}\n", "stream": "stdout", "time": "2026-11-27T02:43:33.1Z"})
            for text in (COMMIT_27, TRACE)
        )
    )
    assert [(each.request, each.time) for each in wrapped] == [
        (each.request, each.time) for each in plain
    ]


def test_other_commands_refuse_it_and_name_explain(tmp_path: Path, empty_directory: Path) -> None:
    (file,) = _where(tmp_path, COMMIT_27).files
    done = brokertwin("replay", file, "--broker", "1", cwd=empty_directory)
    assert done.returncode == 2
    assert "`brokertwin explain`" in done.stderr
    done = brokertwin("explain", "group", "parcels", file, "--broker", "1", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert "scans-0 at 7" in done.stdout


def test_audit_reads_the_request_log_and_no_trace(tmp_path: Path, empty_directory: Path) -> None:
    (file,) = _where(tmp_path, JOIN, COMMIT_27, COMMIT_21, END_TXN).files
    done = brokertwin("audit", file, "--broker", "1", "--json", cwd=empty_directory)
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert kinds == ["producer-fenced", "offset-back"], done.stdout + done.stderr
    file.write_text(TRACE)
    done = brokertwin("audit", file, "--broker", "1", cwd=empty_directory)
    assert done.returncode == 2
    assert "TRACE log of KafkaApis" in done.stderr


def test_older_responses_get_the_names_of_kafka_4() -> None:
    fetch = _line(
        "apiKey=FETCH, apiVersion=10, clientId=a, correlationId=1",
        "{replica_id=-1,topics=[]},response:{throttle_time_ms=0,error_code=0,session_id=5,responses"
        "=[{topic=scans,partition_responses=[{partition_header={partition=0,error_code=1,"
        "high_watermark=-1},record_set=[]}]}]}",
    )
    metadata = _line(
        "apiKey=METADATA, apiVersion=7, clientId=a, correlationId=2",
        "{topics=[scans]},response:{brokers=[{node_id=3,host=localhost,port=9092,rack=null}],"
        "topic_metadata=[{error_code=0,topic=scans,is_internal=false,partition_metadata=["
        "{error_code=0,partition=0,leader=3,leader_epoch=0,replicas=[3],isr=[3]}]}]}",
    )
    fetched, described = (json.loads(bytes(each.response)) for each in _documents(fetch, metadata))
    (partition,) = fetched["responses"][0]["partitions"]
    assert partition["partitionIndex"] == 0
    assert (partition["errorCode"], partition["highWatermark"]) == (1, -1)
    (topic,) = described["topics"]
    assert (topic["name"], topic["partitions"][0]["leaderId"]) == ("scans", 3)
    assert topic["partitions"][0]["isrNodes"] == [3]
