"""DescribeLogDirs: the logs of a broker, with the size of their batches."""

from typing import Any

from tests.support.machine import Bench, header


def described(bench: Bench, topics: Any = None, version: int = 5) -> Any:
    return bench.request("DESCRIBE_LOG_DIRS", version, topics=topics)


def partition(number: int, size: int) -> dict[str, Any]:
    fields = {"partitionSize": size, "offsetLag": 0, "isFutureKey": False}
    return {"partitionIndex": number, **fields}


def test_logs_without_an_assigned_directory_are_in_the_first_one() -> None:
    bench = Bench(given={"log.dirs": "/data/a, /data/b"})
    bench.topic("orders", 2)
    bench.topic("payments")
    bench.append("orders", header(3, size=100), partition=1)
    bench.append("orders", header(2, size=70), partition=1)
    disk = {"totalBytes": -1, "usableBytes": -1, "isCordoned": False}
    orders = {"name": "orders", "partitions": [partition(0, 0), partition(1, 170)]}
    payments = {"name": "payments", "partitions": [partition(0, 0)]}
    first = {"errorCode": 0, "logDir": "/data/a", "topics": [orders, payments], **disk}
    second = {"errorCode": 0, "logDir": "/data/b", "topics": [], **disk}
    fields = {"throttleTimeMs": 0, "errorCode": 0, "results": [first, second]}
    assert described(bench) == fields


def test_unknown_topics_and_partitions_are_omitted() -> None:
    bench = Bench((1, 2))
    wanted = {"name": "orders", "assignments": [{"partitionIndex": 0, "brokerIds": [2]}]}
    wanted |= {"numPartitions": -1, "replicationFactor": -1}
    bench.request("CREATE_TOPICS", 7, topics=[wanted], timeoutMs=1000)
    requests = [{"topic": "orders", "partitions": [0, 9]}, {"topic": "nope", "partitions": [0]}]
    assert [described(bench, version=each).get("errorCode") for each in (2, 3)] == [None, 0]
    (result,) = described(bench, requests, version=1)["results"]
    assert result == {"errorCode": 0, "logDir": "/tmp/kafka-logs", "topics": []}
    response = bench.request("DESCRIBE_LOG_DIRS", 1, topics=requests, broker=2)
    (topic,) = response["results"][0]["topics"]
    assert topic == {"name": "orders", "partitions": [partition(0, 0)]}


def test_each_directory_shows_its_own_logs() -> None:
    names = ("/data/a", "/data/b")
    bench = Bench(given={"log.dirs": ",".join(names)}, log_dirs=names)
    bench.topic("orders", 3)
    response = bench.request("DESCRIBE_LOG_DIRS", 4, topics=None)
    actual = {
        each["logDir"]: [p["partitionIndex"] for t in each["topics"] for p in t["partitions"]]
        for each in response["results"]
    }
    assert actual == {"/data/a": [0, 2], "/data/b": [1]}
