"""Bytes that are not requests, and requests with invalid parts."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import DATA, Author, batch, cut, frame, join, view
from tests.exam.script import Script, fetch_body, produce_body

MALFORMED = Author("malformed", "Malformed input", source="SocketServer")


def alive(s: Script) -> None:
    """Show that the broker still responds."""
    s.call("ApiVersions", 0, {}, "another connection", on="alive", view=_CODE)


def _hex(*numbers: tuple[int, int]) -> bytes:
    return b"".join(value.to_bytes(size, "big", signed=True) for value, size in numbers)


_CODE = view(only=["errorCode"], without=["apiKeys", "supportedFeatures", "finalizedFeatures"])


@MALFORMED
def bad_truncated_body(s: Script) -> None:
    """A frame whose body ends too early closes its connection alone."""
    s.raw(cut(frame("Metadata", 9, {"topics": []}), 2), "c")
    s.outcome("two bytes are missing", "c")
    alive(s)


@MALFORMED
def bad_incomplete_frame(s: Script) -> None:
    """A frame that never gets complete does not disturb other connections."""
    s.raw(b"\x00\x00\x00\x40\x00\x03", "c", is_bare=True)
    s.silent("the frame is incomplete", "c", 200)
    s.close("c")
    alive(s)


@MALFORMED
def bad_empty_frame(s: Script) -> None:
    """A frame of a few bytes is no request header and closes the connection."""
    for size in (1, 4, 7):
        s.raw(b"\x00" * size, f"c{size}")
        s.outcome(f"{size} bytes", f"c{size}")
    alive(s)


SIZES = {
    "max": ("A size of 2147483647 closes the connection.", 2**31 - 1),
    "negative": ("A negative size closes the connection.", -1),
    "zero": ("A size of 0 closes the connection.", 0),
    "above_limit": ("A size above socket.request.max.bytes closes the connection.", 104_857_601),
}


def _size(number: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        s.raw(_hex((number, 4)) + b"abcdefgh", "c", is_bare=True)
        s.outcome(f"size {number}", "c")
        alive(s)

    return play


for _name, (_rule, _number) in SIZES.items():
    MALFORMED.case(
        f"bad_size_{_name}",
        _rule,
        _size(_number),
        source="NetworkReceive",
        settings={"socket.request.max.bytes": "104857600"},
    )

KEYS = {
    "unknown": ("An unknown API key closes the connection.", 999),
    "negative": ("A negative API key closes the connection.", -1),
    "removed": ("LeaderAndIsr, which Kafka 4 removed, closes the connection.", 4),
    "controller": ("Vote, an API between controllers, closes the connection.", 52),
}


def _key(number: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        s.raw(_hex((number, 2), (0, 2), (1, 4), (2, 2)) + b"c1", "c")
        s.outcome(f"API key {number}", "c")
        alive(s)

    return play


for _name, (_rule, _number) in KEYS.items():
    MALFORMED.case(f"bad_key_{_name}", _rule, _key(_number), source="RequestContext")

VERSIONS = {
    "produce_2": ("Produce v2 was removed in Kafka 4 and closes the connection.", 0, 2),
    "produce_99": ("Produce v99 closes the connection.", 0, 99),
    "fetch_3": ("Fetch v3 was removed in Kafka 4 and closes the connection.", 1, 3),
    "metadata_99": ("Metadata v99 closes the connection.", 3, 99),
    "join_99": ("JoinGroup v99 closes the connection.", 11, 99),
    "negative": ("A negative version closes the connection.", 3, -1),
}


def _version(key: int, version: int) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        header = _hex((key, 2), (version, 2), (1, 4), (2, 2)) + b"c1"
        s.raw(header + b"\x00" * 40, "c")
        s.outcome(f"API key {key}, version {version}", "c")
        alive(s)

    return play


for _name, (_rule, _number, _other) in VERSIONS.items():
    MALFORMED.case(
        f"bad_version_{_name}", _rule, _version(_number, _other), source="RequestContext"
    )


@MALFORMED(kip="KIP-511", source="ApiVersionsRequest")
def bad_api_versions_version(s: Script) -> None:
    """ApiVersions in an unknown version gets a v0 response with error 35 and the known range."""
    s.raw(frame("ApiVersions", 3, _SOFTWARE, sentVersion=99), "c")
    shown = view(without=["maxVersion"])
    s.receive("v99", "c", api="ApiVersions", version=0, view=shown)
    s.call("ApiVersions", 3, _SOFTWARE, "v3 on the same connection", on="c", view=_CODE)


_SOFTWARE = {"clientSoftwareName": "exam", "clientSoftwareVersion": "1"}


SOFTWARE = {
    "empty": ("An empty client software name is refused.", {"clientSoftwareName": ""}),
    "spaces": ("A client software name with spaces is refused.", {"clientSoftwareName": "a b"}),
    "dots": ("A software name must not end with a dot.", {"clientSoftwareName": "a."}),
    "version": ("An empty client software version is refused.", {"clientSoftwareVersion": ""}),
}


def _software(fields: dict[str, str]) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        s.call("ApiVersions", 3, {**_SOFTWARE, **fields}, "ApiVersions v3", view=_CODE)

    return play


for _name, (_rule, _fields) in SOFTWARE.items():
    MALFORMED.case(
        f"bad_software_{_name}",
        _rule,
        _software(_fields),
        source="ApiVersionsRequest",
        kip="KIP-511",
    )


@MALFORMED
def null_client_id(s: Script) -> None:
    """A request without a client id is served."""
    s.raw(frame("ApiVersions", 0, {}, clientId=None), "c")
    s.receive("null client id", "c", api="ApiVersions", version=0, view=_CODE)


@MALFORMED
def bytes_after_request(s: Script) -> None:
    """Bytes after a request's body are ignored."""
    s.raw(join(frame("ApiVersions", 0), b"abc"), "c")
    s.receive("three more bytes", "c", api="ApiVersions", version=0, view=_CODE)


@MALFORMED
def pipelined_in_order(s: Script) -> None:
    """Requests of a connection are answered in their order."""
    t = s.topic()
    for _ in range(3):
        s.send("Produce", 9, produce_body(t, batch(1)), "c")
    wanted = [{"partitionIndex": 0, "timestamp": -1}]
    body = {"replicaId": -1, "topics": [{"name": t, "partitions": wanted}]}
    s.send("ListOffsets", 7, body, "c")
    for number in range(4):
        s.receive(f"response {number}", "c")


@MALFORMED
def waiting_request_blocks_its_connection(s: Script) -> None:
    """A request behind a waiting fetch is answered after it."""
    t = s.topic()
    s.send("Fetch", 12, fetch_body([(t, [(0, 0)])], max_wait=400, min_bytes=1), "c")
    s.send("Metadata", 12, {"topics": []}, "c")
    s.receive("first the fetch", "c")
    s.receive("then the metadata", "c", view=view(only=["errorCode"], without=["brokers"]))


BAD_BATCHES: dict[str, tuple[str, Any]] = {
    "crc": ("A batch with a wrong checksum is refused.", batch(2, has_bad_crc=True)),
    "empty": ("An empty record set is refused.", b""),
    "magic_0": ("A batch of magic 0 is refused.", batch(magic=0)),
    "magic_1": ("A batch of magic 1 is refused.", batch(magic=1)),
    "magic_3": ("A batch of magic 3 is refused.", batch(magic=3)),
    "count": ("A batch whose count differs from its records is refused.", batch(2, count=3)),
    "no_records": ("A batch that says it has no records is refused.", batch(2, count=0)),
    "last_delta": ("A batch with a wrong last offset delta is refused.", batch(2, last_delta=5)),
    "cut": ("A batch that is cut is refused.", cut(batch(2), 5)),
    "two": ("A record set with two batches is refused.", join(batch(1), batch(1))),
    "codec_5": ("An unknown codec is refused.", batch(1, attributes=5)),
    "not_gzip": ("Records that do not decompress are refused.", batch(1, attributes=1)),
    "control": ("A control batch of a client is refused.", batch(1, control=True)),
    "transactional": (
        "A transactional batch without a producer id is refused.",
        batch(1, txn=True),
    ),
    "garbage": ("Bytes that are no batch are refused.", b"garbage-garbage-garbage-garbage"),
    "append_time": (
        "The append time flag is cleared if the topic has create time.",
        batch(1, attributes=8),
    ),
    "base_offset": ("The base offset of a produced batch must be 0.", batch(1, base=7)),
    "leader_epoch": ("The leader epoch of a batch is set by the broker.", batch(1, leader_epoch=9)),
    "delete_horizon": ("The delete horizon flag is accepted.", batch(1, attributes=64)),
}


def _bad_batch(data: Any) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic()
        s.produce(t, data, label="produce")
        s.list_offsets(t, -1, label="end")
        s.fetch([(t, [(0, 0)])], "log")

    return play


for _name, (_rule, _data) in BAD_BATCHES.items():
    MALFORMED.case(
        f"bad_batch_{_name}",
        _rule,
        _bad_batch(_data),
        source="LogValidator",
        severity=DATA,
        kip="KIP-98",
    )


@MALFORMED(source="LogValidator", severity=DATA)
def bad_keys_of_compacted_topic(s: Script) -> None:
    """Records without keys are refused by compacted topics, one by one."""
    keys = [b"a", b"b", b"c"]
    for name, policy in (("compact", "compact"), ("both", "compact,delete")):
        t = s.topic(name, configs={"cleanup.policy": policy})
        s.produce(t, batch(3, keys=keys), label=f"{policy}: keys")
        s.produce(t, batch(5), label=f"{policy}: no keys")
        s.produce(t, batch(3, keys=[b"a", None, b"c"]), label=f"{policy}: one without")


@MALFORMED(source="LogValidator", severity=DATA)
def bad_keys_and_times(s: Script) -> None:
    """In a compacted topic, a missing key is reported before a wrong time."""
    t = s.topic(configs={"cleanup.policy": "compact"})
    s.produce(t, batch(1, at=7_200_000), label="no key, and an hour ahead")
    for version in (7, 8):
        s.produce(t, batch(1), label=f"v{version}", version=version)
    s.produce(t, batch(1), label="acks 1", acks=1)
    s.list_offsets(t, -1, label="end")


TIMES: dict[str, tuple[str, dict[str, str], Any]] = {
    "too_old": (
        "Records older than message.timestamp.before.max.ms are refused.",
        {"message.timestamp.before.max.ms": "600000"},
        batch(2, at=-900_000, step=900_000),
    ),
    "not_too_old": (
        "Records within message.timestamp.before.max.ms are accepted.",
        {"message.timestamp.before.max.ms": "600000"},
        batch(1, at=-300_000),
    ),
    "none": (
        "A record with time -1 is accepted.",
        {"message.timestamp.before.max.ms": "600000"},
        batch(1, time=-1),
    ),
    "ahead": (
        "Records more than an hour ahead are refused, each with its index.",
        {},
        batch(3, step=3_000_000),
    ),
    "any_ahead": (
        "message.timestamp.after.max.ms can allow any time ahead.",
        {"message.timestamp.after.max.ms": "9223372036854775807"},
        batch(1, at=10**12),
    ),
    "append_time": (
        "With LogAppendTime, the time of a record does not matter, and the response has one.",
        {"message.timestamp.type": "LogAppendTime"},
        batch(1, at=10**12),
    ),
}


def _timed(configs: dict[str, str], data: Any) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        t = s.topic(configs=configs)
        s.produce(t, data, label="produce")
        s.list_offsets(t, -1, label="end")

    return play


for _name, (_rule, _configs, _data) in TIMES.items():
    MALFORMED.case(
        f"bad_time_{_name}",
        _rule,
        _timed(_configs, _data),
        source="LogValidator",
        severity=DATA,
        kip="KIP-937",
    )


@MALFORMED(source="LogValidator", severity=DATA)
def bad_batch_too_large(s: Script) -> None:
    """A batch above max.message.bytes is refused."""
    t = s.topic(configs={"max.message.bytes": "1000"})
    s.produce(t, batch(values=[b"x" * 2000]), label="2000 bytes")
    s.produce(t, batch(values=[b"x" * 500]), label="500 bytes")


@MALFORMED(source="KafkaApis")
def bad_partition_numbers(s: Script) -> None:
    """Partition -1 is unknown to all APIs."""
    t, g = s.topic(), s.group()
    s.produce(t, batch(1), -1, "Produce")
    s.fetch([(t, [(-1, 0)])], "Fetch")
    s.list_offsets(t, -1, part=-1, label="ListOffsets")
    s.commit(g, t, [(-1, 3)], "OffsetCommit")


@MALFORMED(source="KafkaApis")
def bad_produce_names(s: Script) -> None:
    """Produce to unknown topics, partitions and invalid names fails for each partition."""
    t = s.topic()
    s.produce(s.name("none"), batch(1), label="unknown topic")
    s.produce(t, batch(1), 9, "unknown partition")
    s.produce("bad name!", batch(1), label="invalid name")
    s.produce("", batch(1), label="empty name")


@MALFORMED(source="KafkaApis")
def bad_acks(s: Script) -> None:
    """Only acks -1, 0 and 1 are valid."""
    t = s.topic()
    for acks in (-2, 2, 100):
        s.produce(t, batch(1), label=f"acks {acks}", acks=acks)
    s.list_offsets(t, -1, label="end")


@MALFORMED(source="SaslServerAuthenticator")
def bad_sasl_on_plaintext(s: Script) -> None:
    """SASL requests to a listener without SASL are refused, and the connection stays open."""
    s.call("SaslHandshake", 1, {"mechanism": "PLAIN"}, "SaslHandshake")
    s.call("SaslAuthenticate", 2, {"authBytes": b"\x00a\x00b"}, "SaslAuthenticate")
    alive(s)
