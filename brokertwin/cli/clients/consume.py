"""`brokertwin consume`: read topics as members of a group, with this project's own client."""

import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from brokertwin.cli.clients.threads import SessionMs, ThreadTimeline
from brokertwin.cli.era_options import EraOption, Trace, tracer
from brokertwin.cli.options import AsJson, Bootstrap, ConfigFile, KafkaConfig, settings_of
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.clients.io.group_reader import Member
    from brokertwin.clients.messages import ProducerRecord
    from brokertwin.clients.partitions import TopicPartition

ConsumeProtocol = Literal["classic", "consumer", "share"]
Acknowledge = Literal["accept", "release", "reject"]


class Assignor(StrEnum):
    """Assignors by Kafka's names; typer knows no list of literals."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE_STICKY = "cooperative-sticky"


DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
Topics = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC…", help="Topics to read; or use --include.")
]
Include = Annotated[
    str | None,
    typer.Option(
        "--include",
        metavar="REGEX",
        help="Read all topics whose full names match, including later ones, instead of TOPIC. With"
        " --protocol consumer the broker matches, with RE2 syntax.",
    ),
]
GroupId = Annotated[
    str, typer.Option("--group", "-g", metavar="GROUP", help="Group id (group.id).")
]
Members = Annotated[
    int, typer.Option("--members", min=1, help="Number of members; each runs in its own thread.")
]
ProtocolOption = Annotated[
    ConsumeProtocol,
    typer.Option(
        "--protocol",
        help="group.protocol. classic: a member assigns partitions. consumer: the coordinator does"
        " (KIP-848, Kafka 4.0 or later). share: members of a share group share the records"
        " (KIP-932, Kafka 4.2 or later).",
    ),
]
AcknowledgeOption = Annotated[
    Acknowledge,
    typer.Option(
        "--acknowledge",
        help="With --protocol share: acknowledgement of each printed record. A released record is"
        " delivered again until the delivery limit.",
    ),
]
RemoteAssignor = Annotated[
    str | None,
    typer.Option(
        "--remote-assignor",
        metavar="NAME",
        help="With --protocol consumer: uniform or range (group.remote.assignor).",
    ),
]
Assignors = Annotated[
    list[Assignor] | None,
    typer.Option(
        "--assignor",
        help="With --protocol classic: partition assignor, most preferred first; repeatable."
        " Default: range and cooperative-sticky, as in Kafka's consumer.",
    ),
]
FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="Without committed offsets, start at the first record (auto.offset.reset=earliest).",
    ),
]
Committed = Annotated[
    bool,
    typer.Option("--read-committed", help="Skip records of open and aborted transactions."),
]
Count = Annotated[
    int | None,
    typer.Option("--max-messages", "-n", min=1, metavar="N", help="Stop after N records."),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="Stop if no record arrived for SECONDS after the group has formed.",
    ),
]
InstanceId = Annotated[
    str | None,
    typer.Option(
        "--instance-id",
        metavar="ID",
        help="Static membership (group.instance.id): a member that leaves keeps its partitions for"
        " the session timeout. Further members get the suffixes -2, -3, …",
    ),
]
Rack = Annotated[
    str,
    typer.Option(
        "--client-rack",
        metavar="RACK",
        help="Rack of the members (client.rack), to read from replicas in that rack. Brokers need"
        " the rack-aware replica.selector.class.",
    ),
]
Threads = Annotated[
    bool,
    typer.Option(
        "--show-threads",
        help="Print each change of the assignment on standard error, and a chart at the end.",
    ),
]


def command(
    group: GroupId,
    topics: Topics = None,
    include: Include = None,
    members: Members = 1,
    protocol: ProtocolOption = "classic",
    assignor: Assignors = None,
    remote_assignor: RemoteAssignor = None,
    acknowledge: AcknowledgeOption = "accept",
    from_beginning: FromBeginning = False,
    read_committed: Committed = False,
    max_messages: Count = None,
    timeout: Idle = None,
    instance_id: InstanceId = None,
    session_timeout_ms: SessionMs = 45_000,
    client_rack: Rack = "",
    threads: Threads = False,
    era: EraOption = None,
    trace: Trace = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Read topics of any Kafka as members of a group; Ctrl-C commits and leaves the group.

    Each record's value is printed as a line; --json prints a document with topic, partition,
    offset, key, timestamp and headers. Offsets are committed every five seconds, before a
    rebalance and at the end. In a share group, each record is acknowledged after it is printed.
    The members are brokertwin's own consumer; other clients can be members of the same group.
    Exits with code 1 if the last commit failed.
    """
    from brokertwin.cli.clients.client_access import accessible
    from brokertwin.clients.assignors.assign import AssignorName
    from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
    from brokertwin.clients.eras import of_consumer, of_fetches
    from brokertwin.clients.fetcher import FetchSettings, OffsetReset
    from brokertwin.clients.io.consumer import numbered_consumer
    from brokertwin.clients.io.group_reader import GroupReader
    from brokertwin.clients.io.share_member import ShareMember
    from brokertwin.clients.traced import consumer_maker

    _check_wanted(topics, include, protocol)
    is_shared = protocol == "share"
    _check_assignor(protocol, assignor)
    unknown_there = (assignor, remote_assignor, include, instance_id, from_beginning)
    is_former = era is not None or trace
    _check_shared(is_shared, any(unknown_there) or read_committed or is_former, acknowledge, group)
    kafka = accessible(settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config))
    fetches = FetchSettings(
        auto_offset_reset=OffsetReset.EARLIEST if from_beginning else OffsetReset.LATEST,
        isolation_level=int(read_committed),
        client_rack=client_rack,
    )
    consumer_config = ConsumerConfig(
        group_id=group,
        group_instance_id=instance_id,
        group_protocol=GroupProtocol.CLASSIC if is_shared else GroupProtocol(protocol),
        group_remote_assignor=remote_assignor,
        client_rack=client_rack,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=min(3_000, session_timeout_ms // 3),
        assignors=tuple(AssignorName(each) for each in assignor or DEFAULT_ASSIGNORS),
    )
    settings, fetches = of_consumer(era, consumer_config), of_fetches(era, fetches)
    topic_names, client = topics or [], consumer_maker(era, tracer(trace))
    make: Callable[[int], Member] = partial(
        numbered_consumer, kafka, settings, topic_names, include, fetches, client
    )
    if is_shared:
        make = partial(ShareMember, kafka, settings, topic_names, acknowledge.upper())
    timeline = ThreadTimeline(threads, [f"member {number + 1}" for number in range(members)])
    reader = GroupReader(members, make, say, timeline.note)
    try:
        for record in reader.records(max_messages, timeout):
            if as_json:
                show_json(document(*record))
            else:
                typer.echo(text(record[2].value or b""))
    except KeyboardInterrupt:
        say("leaving the group")
    finally:
        reader.stop()
    timeline.show()
    reader.check()
    if reader.is_uncommitted:
        raise typer.Exit(1)


def _check_wanted(topics: list[str] | None, include: str | None, protocol: ConsumeProtocol) -> None:
    """Check the topics or the pattern. Raises UserError."""
    if bool(topics) == bool(include):
        raise UserError(
            "`brokertwin consume` needs either topics or --include.",
            "Name topics, or pass a pattern: --include 'orders-.*'.",
        )
    if include and protocol == "classic":
        try:
            re.compile(include)
        except re.error as error:
            raise UserError(f"Invalid regular expression {include!r}: {error}.") from None


def _check_assignor(protocol: ConsumeProtocol, assignor: list[Assignor] | None) -> None:
    """Check that the protocol has assignors. Raises UserError."""
    if protocol == "consumer" and assignor:
        raise UserError(
            "Cannot combine --assignor with --protocol consumer: the broker assigns partitions.",
            "Pass --remote-assignor uniform or --remote-assignor range instead.",
        )


def _check_shared(is_shared: bool, has_others: bool, acknowledge: Acknowledge, group: str) -> None:
    """Check options that only some protocols support. Raises UserError."""
    if is_shared and has_others:
        raise UserError(
            "--protocol share does not support assignors, --include, --instance-id,"
            " --from-beginning, --read-committed, --era and --trace.",
            "Set share.auto.offset.reset and share.isolation.level of the group instead:"
            f" kafka-configs.sh --alter --entity-type groups --entity-name {group}"
            " --add-config NAME=VALUE.",
        )
    if not is_shared and acknowledge != "accept":
        raise UserError("--acknowledge requires a share group.", "Add --protocol share.")


def document(
    at: "TopicPartition", offset: int, message: "ProducerRecord", delivery_count: int | None = None
) -> dict[str, Any]:
    """Return a record as JSON, escaping bytes that are not UTF-8.

    Share groups add the delivery count.
    """
    deliveries = {} if delivery_count is None else {"deliveryCount": delivery_count}
    return deliveries | {
        "topic": at.topic,
        "partition": at.partition,
        "offset": offset,
        "timestamp": message.timestamp,
        "key": None if message.key is None else text(message.key),
        "value": None if message.value is None else text(message.value),
        "headers": {name: None if v is None else text(v) for name, v in message.headers},
    }


def text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
