"""`brokertwin streams`: applications of Kafka Streams on our own clients, on any Kafka."""

import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import Bootstrap, ConfigFile, KafkaConfig, group, settings_of
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.clients.streams.layout import Layout
    from brokertwin.clients.streams.stream_thread import StreamThread
    from brokertwin.clients.streams.streams_config import StreamsConfig
    from brokertwin.clients.streams.streams_protocol import HostInfo
    from brokertwin.clients.streams.topology import Topology
    from brokertwin.drivers.questions import Questions
    from brokertwin.drivers.streams import Instance
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings

LOOK_S = 0.2
app = group()

ApplicationId = Annotated[
    str | None,
    typer.Option(
        "--application-id",
        metavar="ID",
        help="Instances of one id share the tasks; its topics begin with it (application.id)."
        " Without: the command's name.",
    ),
]
ThreadCount = Annotated[
    int, typer.Option("--threads", min=1, help="Threads of this instance (num.stream.threads).")
]
ExactlyOnce = Annotated[
    bool,
    typer.Option(
        "--exactly-once",
        help="Each record counts once, by transactions (processing.guarantee=exactly_once_v2).",
    ),
]
Replicas = Annotated[
    int,
    typer.Option(
        "--num-standby-replicas",
        min=0,
        metavar="N",
        help="Copies of each store in other instances (num.standby.replicas).",
    ),
]
CommitMs = Annotated[
    int | None,
    typer.Option(
        "--commit-interval-ms",
        min=1,
        metavar="MS",
        help="commit.interval.ms; without: 30000, with --exactly-once 100.",
    ),
]
SessionMs = Annotated[
    int, typer.Option("--session-timeout-ms", min=1, metavar="MS", help="session.timeout.ms")
]
Create = Annotated[
    int | None,
    typer.Option(
        "--create",
        min=1,
        metavar="PARTITIONS",
        help="Create the topics that are not there, with so many partitions.",
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="End when so long no record came, while all tasks of this instance run.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--application-server",
        metavar="HOST:PORT",
        help="Answer questions for keys there, and tell the other instances"
        " (application.server). It asks nobody who it is.",
    ),
]
Threads = Annotated[
    bool,
    typer.Option(
        "--show-threads",
        help="Tell on standard error who runs which task whenever that changes, and draw it.",
    ),
]


@app.callback()
def streams_command() -> None:
    """Applications of Kafka Streams on our own clients: tasks over threads and instances.

    Instances that are started with one --application-id share the tasks, here and on other
    machines; what a thread had that dies, others go on with from the committed offsets, their
    stores restored from the changelogs. `--show-threads` draws who ran which task.
    """


@app.command()
def wordcount(
    source: Annotated[str, typer.Argument(metavar="LINES", help="Topic of lines of text.")],
    sink: Annotated[str, typer.Argument(metavar="COUNTS", help="Topic of words and counts.")],
    application_id: ApplicationId = None,
    threads: ThreadCount = 1,
    exactly_once: ExactlyOnce = False,
    num_standby_replicas: Replicas = 0,
    commit_interval_ms: CommitMs = None,
    session_timeout_ms: SessionMs = 45_000,
    create: Create = None,
    timeout: Idle = None,
    application_server: Server = None,
    show_threads: Threads = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Count the words of a topic's lines; Ctrl-C commits and leaves the group.

    Lines are split into words, which go through a topic of the application's own so that each word
    has one task; its count goes to COUNTS, with the word as the key, whenever it changes. The
    counts are kept in a store with a changelog topic: another thread or instance goes on with them.
    """
    from brokertwin.clients.streams.applications import word_count

    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config)
    streams = _config(
        application_id or "wordcount",
        exactly_once,
        num_standby_replicas,
        commit_interval_ms,
        session_timeout_ms,
    )
    topology = word_count(source, sink)
    run = Run(settings, streams, topology, {sink}, create, application_server)
    run.run(threads, timeout, show_threads)


@app.command()
def join(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="Topic of a table: key and value.")],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Topic of another one.")],
    sink: Annotated[str, typer.Argument(metavar="JOINED", help="Topic of what both have.")],
    application_id: ApplicationId = None,
    threads: ThreadCount = 1,
    exactly_once: ExactlyOnce = False,
    num_standby_replicas: Replicas = 0,
    commit_interval_ms: CommitMs = None,
    session_timeout_ms: SessionMs = 45_000,
    create: Create = None,
    timeout: Idle = None,
    application_server: Server = None,
    show_threads: Threads = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Join two tables by their keys; Ctrl-C commits and leaves the group.

    The newest value of a key on both sides goes to JOINED as `left,right` whenever one of them
    changes, and a tombstone where one goes. Both topics must have the same number of partitions.
    """
    from brokertwin.clients.streams.applications import table_join

    settings = settings_of(config, bootstrap=bootstrap, kafka_config=kafka_config)
    streams = _config(
        application_id or "join",
        exactly_once,
        num_standby_replicas,
        commit_interval_ms,
        session_timeout_ms,
    )
    topology = table_join(left, right, sink)
    run = Run(settings, streams, topology, {sink}, create, application_server)
    run.run(threads, timeout, show_threads)


@app.command()
def ask(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Any instance's.")],
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="counts of wordcount; left, right of join.")
    ],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="As text; without it, a range of keys.")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", metavar="KEY", help="The first key of the range.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="KEY", help="The last key of the range.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale", help="Where the owner does not answer, a copy will do, which may be older."
        ),
    ] = False,
) -> None:
    """Ask an instance for a key's value, or for all keys of a range; it asks who has them.

    The answer is a document: the task that has the key, the instance that runs it, those with
    copies, and the value, null where there is none; or the keys of a range, of all instances. The
    exit code is 1 while nobody can tell.
    """
    from brokertwin.drivers.questions import Question
    from brokertwin.drivers.questions import ask as ask_server

    named, begin, end = (None if each is None else each.encode() for each in (key, first, last))
    found = ask_server(_host_info(server), Question(store, named, begin, end, stale))
    show_json(found)
    if "error" in found:
        raise typer.Exit(1)


def _host_info(text: str) -> "HostInfo":
    """Raises UserError."""
    from brokertwin.clients.streams.streams_protocol import host_info

    try:
        return host_info(text)
    except ValueError:
        raise UserError(f"{text} is no HOST:PORT.") from None


def _config(
    application_id: str,
    exactly_once: bool,
    replicas: int,
    commit_interval_ms: int | None,
    session_timeout_ms: int,
) -> "StreamsConfig":
    from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig

    return StreamsConfig(
        application_id=application_id,
        processing_guarantee=(
            Guarantee.EXACTLY_ONCE_V2 if exactly_once else Guarantee.AT_LEAST_ONCE
        ),
        num_standby_replicas=replicas,
        commit_interval_ms=commit_interval_ms,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=min(3_000, max(session_timeout_ms // 3, 1)),
    )


class Run:
    """One instance, from its topics to its end."""

    def __init__(
        self,
        settings: "Settings",
        config: "StreamsConfig",
        topology: "Topology",
        sinks: set[str],
        create: int | None,
        server: str | None,
    ) -> None:
        """Raises UserError where Kafka or the topics are not as they have to be."""
        from brokertwin.cli.client_access import accessible
        from brokertwin.clients.timeline import Timeline
        from brokertwin.drivers.sockets import monotonic_ms

        self._end_point = _host_info(server) if server is not None else None
        self._kafka = accessible(settings)
        self._config = config
        self._topology = topology
        self._timeline = Timeline(monotonic_ms())
        self._last: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._is_ending = False
        self._is_shown = False
        self._layout = _prepare_topics(self._kafka, config.application_id, topology, sinks, create)

    def run(self, threads: int, idle_s: float | None, is_shown: bool) -> None:
        """Until Ctrl-C, or until no record has come for so long. Raises UserError."""
        from brokertwin.cli.threads import show_threads
        from brokertwin.drivers.sockets import monotonic_ms
        from brokertwin.drivers.streams import Instance

        self._is_shown = is_shown
        tasks = " ".join(map(str, self._layout.tasks))
        say(f"{self._config.application_id}: {len(self._layout.tasks)} tasks: {tasks}")
        instance = Instance(
            self._kafka,
            self._config,
            self._topology,
            end_point=self._end_point,
            look=self._look,
        )
        questions = self._questions(instance)
        try:
            for _ in range(threads):
                instance.start_thread()
            self._wait(instance, idle_s)
        except KeyboardInterrupt:
            say("committing and leaving the group")
        finally:
            self._is_ending = True
            instance.close()
            if questions is not None:
                questions.close()
        if is_shown:
            show_threads(self._timeline, monotonic_ms(), self._last)
        worked = sum(running.stream.worked for running in instance.threads.values())
        say(f"{worked} records worked on")
        for name, running in instance.threads.items():
            if running.error is not None:
                raise UserError(f"{name} can not go on: {running.error.rstrip('.')}.")

    def _questions(self, instance: "Instance") -> "Questions | None":
        """Raises UserError where the address is taken."""
        from brokertwin.drivers.questions import Questions

        if self._end_point is None:
            return None
        try:
            return Questions(instance, self._layout, self._end_point)
        except OSError as error:
            raise UserError(
                f"{self._end_point} can not be listened at: {error.strerror}."
            ) from None

    def _wait(self, instance: "Instance", idle_s: float | None) -> None:
        from brokertwin.clients.streams.stream_thread import ThreadState

        worked, since = -1, time.monotonic()
        while True:
            time.sleep(LOOK_S)
            streams = [running.stream for running in instance.threads.values()]
            if any(running.error is not None for running in instance.threads.values()):
                return
            now = sum(stream.worked for stream in streams)
            all_run = all(stream.state is ThreadState.RUNNING for stream in streams)
            if now != worked or not all_run:
                worked, since = now, time.monotonic()
            elif idle_s is not None and time.monotonic() - since >= idle_s:
                return

    def _look(self, name: str, stream: "StreamThread") -> None:
        from brokertwin.cli.threads import say_change
        from brokertwin.drivers.sockets import monotonic_ms

        with self._lock:
            running = [str(task) for task in stream.running]
            if not self._timeline.note(monotonic_ms(), name, running):
                self._last.setdefault(name, [])
                return
            if running or not self._is_ending:
                self._last[name] = running
            if self._is_shown and not self._is_ending:
                say_change(self._timeline)


def _prepare_topics(
    kafka: "ClientProperties",
    application_id: str,
    topology: "Topology",
    sinks: set[str],
    create: int | None,
) -> "Layout":
    """Creates the application's own topics, and with `create` the others that are not there."""
    from brokertwin.clients.streams.layout import layout, source_topics
    from brokertwin.clients.streams.topology import TopologyError
    from brokertwin.drivers.security import properties_of
    from brokertwin.kafka_io import topics

    client = properties_of(kafka)
    admin = topics.admin_client(client)
    there = topics.existing(admin, client)
    wanted, _ = source_topics(application_id, topology)
    missing = sorted((wanted | sinks) - there.keys())
    if missing and create is None:
        raise UserError(
            f"There is no topic {', '.join(missing)}.",
            "Create it, or say --create PARTITIONS.",
        )
    new = {name: topics.TopicSpec(name, create or 1) for name in missing}
    counts = there | {name: spec.partitions for name, spec in new.items()}
    try:
        made = layout(application_id, topology, counts)
    except TopologyError as error:
        raise UserError(f"The topics do not go with the application: {error}.") from None
    for topic in made.internal_topics.values():
        if topic.name not in there:
            new[topic.name] = topics.TopicSpec(topic.name, topic.partitions, topic.settings)
    topics.create(admin, new)
    if new:
        say(f"created the topics {', '.join(new)}")
    return made
