"""`brokertwin streams`: Kafka Streams applications on this project's own clients."""

import signal
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from brokertwin.cli.clients.threads import SessionMs, ShowThreads, ThreadTimeline
from brokertwin.cli.options import (
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    group,
    options_of,
    settings_of,
    with_options,
)
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError
from brokertwin.wording import counted, with_full_stop

if TYPE_CHECKING:
    from brokertwin.clients.streams.streams_config import StreamsConfig
    from brokertwin.clients.streams.streams_protocol import HostInfo
    from brokertwin.clients.streams.topology import Topology

app = group()

ApplicationId = Annotated[
    str | None,
    typer.Option(
        "--application-id",
        metavar="ID",
        help="application.id: instances with the same id share tasks, and the application's topics"
        " have this prefix. Default: the command's name.",
    ),
]
ThreadCount = Annotated[
    int,
    typer.Option(
        "--threads", min=1, metavar="N", help="Threads of this instance (num.stream.threads)."
    ),
]
ExactlyOnce = Annotated[
    bool,
    typer.Option(
        "--exactly-once",
        help="Process each record exactly once (processing.guarantee=exactly_once_v2).",
    ),
]
Replicas = Annotated[
    int,
    typer.Option(
        "--num-standby-replicas",
        min=0,
        metavar="N",
        help="Standby copies of each store in other instances (num.standby.replicas).",
    ),
]
CommitMs = Annotated[
    int | None,
    typer.Option(
        "--commit-interval-ms",
        min=1,
        metavar="MS",
        help="commit.interval.ms; default: 30000, with --exactly-once 100.",
    ),
]
Create = Annotated[
    int | None,
    typer.Option(
        "--create",
        min=1,
        metavar="PARTITIONS",
        help="Create missing topics with this number of partitions.",
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="Stop if no record arrived for SECONDS while all tasks of this instance run.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--application-server",
        metavar="HOST:PORT",
        help="Serve key queries on this address and announce it to other instances"
        " (application.server). There is no authentication.",
    ),
]


class StreamsOptions(NamedTuple):
    application_id: ApplicationId = None
    threads: ThreadCount = 1
    exactly_once: ExactlyOnce = False
    num_standby_replicas: Replicas = 0
    commit_interval_ms: CommitMs = None
    session_timeout_ms: SessionMs = 45_000
    create: Create = None
    idle_s: Idle = None
    application_server: Server = None
    show_threads: ShowThreads = False
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfig = None
    config: ConfigFile = None

    def streams_config(self, name: str) -> "StreamsConfig":
        """Return the configuration of an application with this default id."""
        from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig

        return StreamsConfig(
            application_id=self.application_id or name,
            processing_guarantee=(
                Guarantee.EXACTLY_ONCE_V2 if self.exactly_once else Guarantee.AT_LEAST_ONCE
            ),
            num_standby_replicas=self.num_standby_replicas,
            commit_interval_ms=self.commit_interval_ms,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=min(3_000, max(self.session_timeout_ms // 3, 1)),
        )


with_streams_options = with_options("options", StreamsOptions, options_of(StreamsOptions))


@app.callback()
def streams_command() -> None:
    """Run Kafka Streams applications on brokertwin's own clients.

    Instances with the same --application-id share tasks, also across machines. Tasks of a thread
    that died continue in other threads from the committed offsets, with stores restored from
    changelog topics. --show-threads draws a chart of the task assignment. `kill -USR1 PID` adds a
    thread to a running instance, `kill -USR2 PID` removes one.
    """


@app.command()
@with_streams_options
def wordcount(
    source: Annotated[str, typer.Argument(metavar="LINES", help="Topic with lines of text.")],
    sink: Annotated[str, typer.Argument(metavar="COUNTS", help="Topic for words and counts.")],
    options: StreamsOptions,
) -> None:
    """Count the words in a topic's lines; Ctrl-C commits and leaves the group.

    Words pass through a repartition topic, so that each word has one task. Each change of a count
    is written to COUNTS with the word as key. Counts are in a store with a changelog topic, from
    which another thread or instance can continue.
    """
    from brokertwin.clients.streams.applications import word_count

    _run(options, options.streams_config("wordcount"), word_count(source, sink), {sink})


@app.command()
@with_streams_options
def join(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="Topic of the left table.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Topic of the right table.")],
    sink: Annotated[str, typer.Argument(metavar="JOINED", help="Topic for joined values.")],
    options: StreamsOptions,
) -> None:
    """Join two tables by key; Ctrl-C commits and leaves the group.

    Each change of a key that is in both tables writes its newest values to JOINED as `left,right`;
    a deletion writes a tombstone. Both topics must have the same number of partitions.
    """
    from brokertwin.clients.streams.applications import table_join

    _run(options, options.streams_config("join"), table_join(left, right, sink), {sink})


@app.command("ask")
def query(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of any instance.")],
    store: Annotated[
        str,
        typer.Argument(metavar="STORE", help="Store: counts of wordcount; left or right of join."),
    ],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Key as text; without it, query a range.")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from-key", metavar="KEY", help="First key of the range.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to-key", metavar="KEY", help="Last key of the range.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Accept a standby copy, possibly out of date, if the owner does not respond.",
        ),
    ] = False,
) -> None:
    """Query a key's value or a range of keys from any instance, which asks the owners.

    For a key it prints a document with its task, the instances that run the task and hold standby
    copies, and the value (null if there is none). For a range it prints the keys of all instances.
    Exits with code 1 if the owner is unknown.
    """
    from brokertwin.clients.io.store_queries import StoreQuery, query_instance

    named, begin, end = (None if each is None else each.encode() for each in (key, first, last))
    found = query_instance(_host_info(server), StoreQuery(store, named, begin, end, stale))
    show_json(found)
    if "error" in found:
        raise typer.Exit(1)


def _host_info(text: str) -> "HostInfo":
    """Parse HOST:PORT. Raises UserError."""
    from brokertwin.clients.streams.streams_protocol import host_info

    try:
        return host_info(text)
    except ValueError:
        raise UserError(f"Invalid address {text!r}.", "Pass HOST:PORT: localhost:7070.") from None


def _run(
    options: StreamsOptions, config: "StreamsConfig", topology: "Topology", sinks: set[str]
) -> None:
    """Run one instance until Ctrl-C or the idle timeout. Raises UserError."""
    from brokertwin.cli.clients.client_access import accessible
    from brokertwin.clients.io.store_queries import served_queries
    from brokertwin.clients.io.streams import StreamsInstance
    from brokertwin.clients.io.streams_topics import prepare_topics

    server = options.application_server
    end_point = _host_info(server) if server is not None else None
    kafka = accessible(
        settings_of(options.config, bootstrap=options.bootstrap, kafka_config=options.kafka_config)
    )
    layout, created = prepare_topics(kafka, config.application_id, topology, sinks, options.create)
    if created:
        say(f"created topics: {', '.join(created)}")
    tasks = " ".join(map(str, layout.tasks))
    say(f"{config.application_id}: {counted(len(layout.tasks), 'task')}: {tasks}")
    timeline = ThreadTimeline(options.show_threads)
    instance = StreamsInstance(
        kafka,
        config,
        topology,
        end_point=end_point,
        look=lambda name, stream: timeline.note(
            name, [str(task) for task in stream.running], instance.is_closing
        ),
    )
    queries = served_queries(instance, layout)
    changes: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: changes.append(1))
    signal.signal(signal.SIGUSR2, lambda *_: changes.append(-1))
    try:
        instance.run(options.threads, options.idle_s, changes, say)
    except KeyboardInterrupt:
        say("committing and leaving the group")
    finally:
        instance.close()
        if queries is not None:
            queries.close()
    timeline.show()
    say(f"processed {counted(instance.worked, 'record')}")
    for name, error in instance.failed.items():
        raise UserError(with_full_stop(f"{name} stopped: {error}"))
