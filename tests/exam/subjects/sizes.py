"""Large requests, records and responses, and their limits."""

from typing import Any

from tests.exam.author import DATA, Author, batch, concat, repeat, text, until, view
from tests.exam.script import Script, fetch_body, produce_body

SIZES = Author("sizes", "Large requests", source="KafkaApis")


def large(size: int, **more: Any) -> Any:
    """Return a batch with one record of a size."""
    return batch(values=[text(repeat("x", size))], **more)


@SIZES(severity=DATA, source="LogValidator")
def size_record_at_limit(s: Script) -> None:
    """max.message.bytes limits a batch with its headers, to the byte."""
    t = s.topic(configs={"max.message.bytes": "1000"})
    for size in (929, 930, 931, 932, 933):
        s.produce(t, large(size), label=f"a value of {size} bytes")


@SIZES(severity=DATA, source="LogValidator")
def size_default_limit(s: Script) -> None:
    """A batch of 1 MB is refused with the default max.message.bytes, one of 1,000,000 is not."""
    t = s.topic()
    s.produce(t, large(1_000_000), label="1,000,000 bytes")
    s.produce(t, large(1_048_588), label="1,048,588 bytes")
    s.list_offsets(t, -1, label="end")


@SIZES(severity=DATA, source="LogValidator")
def size_compressed(s: Script) -> None:
    """max.message.bytes limits the compressed size."""
    t = s.topic(configs={"max.message.bytes": "1000"})
    s.produce(t, large(50_000, codec="gzip"), label="50,000 bytes in gzip")
    s.produce(t, large(50_000), label="50,000 bytes")


@SIZES(severity=DATA, source="LocalLog")
def size_above_segment(s: Script) -> None:
    """A record set above segment.bytes is refused."""
    t = s.topic(configs={"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    s.produce(t, large(1_100_000), label="1.1 MB")
    s.produce(t, large(900_000), label="0.9 MB")
    s.list_offsets(t, -1, label="end")


@SIZES(severity=DATA, source="ReplicaManager")
def size_one_of_two_partitions(s: Script) -> None:
    """A batch that is too large does not keep another partition's batch out."""
    t = s.topic("a", 2, configs={"max.message.bytes": "1000"})
    body = produce_body(t, large(2000))
    body["topicData"][0]["partitionData"].append({"index": 1, "records": batch(1)})
    s.call("Produce", 9, body, "both")


@SIZES(source="OffsetMetadataManager")
def size_commit_of_many_partitions(s: Script) -> None:
    """A commit of 300 partitions is stored as a whole."""
    t, g = s.topic("a", 300), s.group()
    s.commit(g, t, [(part, part) for part in range(300)], "300 partitions")
    s.offsets(g, t, [0, 150, 299], "three of them")


@SIZES(source="KafkaApis")
def size_of_unknown_topics(s: Script) -> None:
    """A Metadata request for 400 unknown topics has 400 errors."""
    names = [{"name": concat(s.name("none"), f"-{number}")} for number in range(400)]
    s.metadata(names, "400 topics")


@SIZES(source="ListOffsetsRequest")
def size_of_list_offsets(s: Script) -> None:
    """ListOffsets of 300 partitions returns each of them."""
    t = s.topic("a", 300)
    wanted = [{"partitionIndex": part, "timestamp": -1} for part in range(300)]
    body = {"replicaId": -1, "topics": [{"name": t, "partitions": wanted}]}
    s.call("ListOffsets", 7, body, "300 partitions")


@SIZES(source="ReplicaManager", kip="KIP-74", severity=DATA)
def size_of_fetched_batches(s: Script) -> None:
    """A first batch above partitionMaxBytes and maxBytes is returned as a whole."""
    t = s.topic("a", 2)
    s.produce(t, large(5000))
    s.produce(t, large(5000), 1)
    shown = view(without=["preferredReadReplica"])
    wanted = fetch_body([(t, [(0, 0), (1, 0)])], max_bytes=100, part_bytes=100)
    s.call("Fetch", 12, wanted, "both partitions", view=shown)


@SIZES(source="KafkaApis", severity=DATA)
def size_of_headers(s: Script) -> None:
    """A record with 200 headers is returned unchanged."""
    t = s.topic()
    headers = [[b"h%d" % number, b"value"] for number in range(200)]
    s.produce(t, batch(values=[b"v"], headers=headers), label="200 headers")
    s.fetch([(t, [(0, 0)])], "records")


@SIZES(source="AbstractFetch", severity=DATA)
def size_of_many_batches(s: Script) -> None:
    """Fifty batches in one partition are returned in order by one Fetch."""
    t = s.topic()
    for number in range(50):
        s.produce(t, batch(values=[b"%d" % number]))
    shown = until("responses.0.partitions.0.highWatermark", 50)
    s.fetch([(t, [(0, 0)])], "50 batches", more={"until": shown})
