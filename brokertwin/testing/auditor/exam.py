"""A run of a client under a fault plan: proxy, processes, evidence, verdict."""

import os
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition
from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import FaultSpec
from brokertwin.kafka_io.kafka_clients import check_reachable
from brokertwin.testing.auditor import exchanges
from brokertwin.testing.auditor.coverage import uncovered
from brokertwin.testing.auditor.exchanges import Violation
from brokertwin.testing.auditor.judge import judge, unfinished
from brokertwin.testing.auditor.logs import ClusterLogs
from brokertwin.testing.auditor.plans import shrink, standing_faults
from brokertwin.testing.auditor.shares import by_place, ended
from brokertwin.testing.auditor.workload import (
    CLASSIC,
    FIRST,
    HEIR,
    LATE_PRODUCERS,
    PLACEHOLDER,
    PRODUCER,
    READERS,
    SECOND,
    SUCCESSOR,
    THIRD,
    VERB_OF,
    ZOMBIE,
    GroupKind,
    Log,
    ProcessRole,
    RunEvidence,
    RunNames,
    Statement,
    WorkKind,
    environment,
    statements,
)
from brokertwin.testing.broker import KafkaBroker
from brokertwin.testing.exam.examination import check_is_empty
from brokertwin.testing.exam.site import look
from brokertwin.testing.proxy import KafkaProxy

POLL_S = 0.05
OWNERS_S = 0.25
"""Pause between looks at all exchanges."""

OUTCOMES_OF_SUCCESSOR = 2
"""Transactions of the successor before it is killed."""

CLOSE_S = 20.0
"""Time for a member to close after SIGTERM."""

ERROR = re.compile("error|exception", re.IGNORECASE)

ENDED = (0, -signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM)
"""Exit codes of processes without an error; JVMs and shells exit with 128 + the signal."""

PREFIX = "exam-client-"
"""Prefix of names in the cluster."""


class Verdict(NamedTuple):
    """Outcome of a run.

    Attributes:
        violations: broken promises.
        unfinished: processes that did not finish in time, in words; no broken promise.
        hits: number of injected faults.
        fenced: number of clients that received an error for an old epoch.
        gave_up: processes that exited with an error, and its text.
        read: number of records of each reader.
        generations: number of generations of all groups.
        uncovered: what the run did not show, in words.
    """

    violations: list[Violation]
    unfinished: list[str]
    hits: int
    requests: int
    fenced: int
    gave_up: dict[str, str]
    read: dict[str, int]
    generations: int
    uncovered: list[str]


@contextmanager
def examined_broker(given: str | None, at: Address | None, is_checked: bool) -> Iterator[str]:
    """Provide the address of a broker: the given one, or a gateway in this process.

    `at` is the given one, parsed.
    Raises UserError if the cluster has other topics or groups, unless that was checked.
    """
    if given is not None and at is not None:
        check_reachable(given, patience_s=0)
        if not is_checked:
            check_is_empty(look(at, ()), PREFIX, "Pass --yes to examine a client here: the exam")
        yield given
        return
    with KafkaBroker() as gateway:
        yield gateway.bootstrap


class Exam(NamedTuple):
    """What all runs have in common.

    Attributes:
        broker: address of a broker, `host:port`.
        command: the adapter with its arguments; `{bootstrap}` is replaced by the address.
        works: kinds of work that the adapter can do.
        records: number of records of the producer.
        timeout_s: time for each part of a run: the first writers, a new member, the readers.
        group: how members join.
    """

    broker: str
    command: Sequence[str]
    works: Collection[WorkKind]
    records: int
    timeout_s: float
    group: GroupKind = CLASSIC

    def run(self, faults: Sequence[FaultSpec]) -> Verdict:
        """Play a plan and judge the client.

        Raises:
            UserError: the command cannot be started, or the broker does not work.
        """
        run = f"{PREFIX}{secrets.token_hex(4)}"
        names = RunNames(run, f"{run}-output", f"{run}-group", f"{run}-id")
        cluster = ClusterLogs(self.broker, names)
        with cluster, KafkaProxy(self.broker, [*standing_faults(), *faults]) as proxy:
            with _Processes(self, names, proxy.bootstrap) as processes:
                committed, late = self._work(processes, cluster, names, proxy)
            evidence = RunEvidence(
                topic=names.topic,
                count=self.records,
                roles=processes.roles,
                statements=processes.statements(),
                exchanges=proxy.requests(),
                logs=cluster.read(names.topic, "read_uncommitted"),
                committed=committed,
                output=self._output(cluster, names, processes),
                late=late,
                gave_up=processes.gave_up,
            )
            hits = sum(fault.hits for fault in proxy.faults[len(standing_faults()) :])
        seen = exchanges.seen(evidence.exchanges)
        missing = [*uncovered(evidence, names)]
        if faults and not hits:
            missing.append("no request for the faults of this plan")
        return Verdict(
            judge(evidence),
            unfinished(evidence),
            hits,
            len(seen),
            exchanges.fenced_count(seen),
            processes.gave_up,
            processes.read_counts(),
            exchanges.generation_count(seen),
            missing,
        )

    def run_calm(self) -> Verdict:
        """Run without faults. Raises UserError if a process other than the zombie fails."""
        verdict = self.run([])
        failed = {name: text for name, text in verdict.gave_up.items() if name != ZOMBIE.name}
        if failed:
            name, text = next(iter(failed.items()))
            raise UserError(
                f"The adapter fails as {name} without faults:\n{text}",
                "Mend the adapter: without faults it has to do all of its work.",
            )
        return verdict

    def shrunk(self, faults: Sequence[FaultSpec]) -> list[FaultSpec]:
        """Return the faults of a failing plan without those that it does not need."""
        return shrink(faults, lambda some: bool(self.run(some).violations))

    def _work(
        self, processes: "_Processes", cluster: ClusterLogs, names: RunNames, proxy: KafkaProxy
    ) -> tuple[dict[TopicPartition, Log], list[str]]:
        """Let all processes work; return the visible records and the names of late processes."""
        if WorkKind.SHARE in self.works:
            cluster.set_share_group()
        for role in (*FIRST, PRODUCER, ZOMBIE):
            processes.start(role)
        deadline = time.monotonic() + self.timeout_s
        wait_until(lambda: processes.has_begun(ZOMBIE), deadline)
        processes.start(SUCCESSOR)
        wait_until(lambda: processes.has_begun(SUCCESSOR, OUTCOMES_OF_SUCCESSOR), deadline)
        processes.kill([SUCCESSOR])
        processes.start(HEIR)
        wait_until(lambda: all(map(processes.has_begun, FIRST)), deadline)
        for role in SECOND:
            processes.start(role)
        self._split(processes, SECOND, LATE_PRODUCERS[0], proxy)
        processes.terminate(FIRST)
        for role in THIRD:
            processes.start(role)
        self._split(processes, THIRD, LATE_PRODUCERS[1], proxy)
        deadline = time.monotonic() + self.timeout_s
        writers = [role for role in processes.roles if role.work not in READERS]
        wait_until(lambda: not processes.running(writers), deadline)
        late = processes.kill(writers)
        if WorkKind.TRANSACT in self.works:
            cluster.end_transactions([names.transactional_id])
        committed = cluster.read(names.topic, "read_committed")
        readers = [role for role in processes.roles if role.work in READERS]
        record_names = {name for log in committed.values() for _, name in log}
        verbs = [VERB_OF[work] for work in self.works if work in READERS]
        shared = by_place(committed).keys() if WorkKind.SHARE in self.works else set()

        def is_read() -> bool:
            has_all = all(record_names <= processes.names_after(verb) for verb in verbs)
            return has_all and shared <= ended(exchanges.seen(proxy.requests())).keys()

        deadline = time.monotonic() + self.timeout_s
        is_over = wait_until(lambda: is_read() or not processes.running(readers), deadline)
        late += [] if is_over else [role.name for role in processes.running(readers)]
        processes.terminate(readers)
        wait_until(lambda: not processes.running(readers), time.monotonic() + CLOSE_S)
        return committed, sorted({*late, *processes.kill(readers)})

    def _split(
        self,
        processes: "_Processes",
        joined: Sequence[ProcessRole],
        producer: ProcessRole,
        proxy: KafkaProxy,
    ) -> None:
        """Start a producer when new readers have partitions; wait until they have read."""
        new = processes.running(joined)
        if not new:
            return

        def have_partitions() -> bool:
            assigned = exchanges.assigned(exchanges.seen(proxy.requests()))
            return all(role.name in assigned for role in processes.running(new))

        wait_until(have_partitions, time.monotonic() + self.timeout_s, OWNERS_S)
        processes.start(producer)
        if producer in processes.roles:
            deadline = time.monotonic() + self.timeout_s
            wait_until(lambda: all(map(processes.has_begun, new)), deadline)

    def _output(self, cluster: ClusterLogs, names: RunNames, processes: "_Processes") -> list[str]:
        """Return the names of the records in the output topic."""
        started = [role for role in processes.roles if role.work is WorkKind.PROCESS]
        if not started:
            return []
        cluster.end_transactions(map(names.transactional_id_of, started))
        logs = cluster.read(names.output, "read_committed")
        return [name for log in logs.values() for _, name in log]


class _Processes:
    """Processes of a run, in a `with`; their lines are read by threads."""

    def __init__(self, exam: Exam, names: RunNames, bootstrap: str) -> None:
        self._exam = exam
        self._names = names
        self._bootstrap = bootstrap
        self._running: dict[ProcessRole, subprocess.Popen[str]] = {}
        self._lines: dict[str, list[str]] = {}
        self._readers: list[threading.Thread] = []
        self._errors: dict[str, Path] = {}
        self._directory = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.gave_up: dict[str, str] = {}

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(list(self._running))
        for process, reader in zip(self._running.values(), self._readers, strict=True):
            reader.join(CLOSE_S)
            if reader.is_alive():  # a child of a script that has ended holds the output
                with suppress(ProcessLookupError):  # it may have a session of its own
                    os.killpg(process.pid, signal.SIGKILL)
                reader.join(CLOSE_S)
        for role, process in self._running.items():
            if process.returncode not in ENDED:
                text = self._errors[role.name].read_text(errors="replace")
                self.gave_up[role.name] = error_in(text) or f"exit code {process.returncode}"
        self._directory.cleanup()

    @property
    def roles(self) -> list[ProcessRole]:
        return list(self._running)

    def start(self, role: ProcessRole) -> None:
        """Start a process, if the client can do its work. Raises UserError."""
        exam = self._exam
        if role.work not in exam.works:
            return
        words = [word.replace(PLACEHOLDER, self._bootstrap) for word in exam.command]
        variables = environment(role, self._names, self._bootstrap, exam.records, exam.group)
        path = self._errors[role.name] = Path(self._directory.name, role.name)
        try:
            with path.open("w") as stderr:
                process = subprocess.Popen(
                    words,
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                    start_new_session=True,
                )
        except OSError as error:
            raise UserError(
                f"Cannot start {words[0]}: {error.strerror}.",
                "Pass the command of an adapter after `--`.",
            ) from None
        self._running[role] = process
        lines = self._lines[role.name] = []
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        self._readers.append(reader)

    def statements(self) -> dict[str, list[Statement]]:
        return {name: list(statements(list(lines))) for name, lines in self._lines.items()}

    def names_after(self, verb: str) -> set[str]:
        """Return the names of records in lines with a verb."""
        return {
            words[-1]
            for lines in self.statements().values()
            for each, words in lines
            if each == verb
        }

    def read_counts(self) -> dict[str, int]:
        made = self.statements()
        return {
            role.name: len({words[-1] for verb, words in made[role.name] if verb == verb_of})
            for role in self.roles
            if (verb_of := VERB_OF.get(role.work))
        }

    def has_begun(self, role: ProcessRole, lines: int = 1) -> bool:
        """True if a process has made statements, has ended, or was not started."""
        return len(self.statements().get(role.name, ())) >= lines or not self.running([role])

    def running(self, roles: Sequence[ProcessRole]) -> list[ProcessRole]:
        return [role for role in roles if role in self._running and self._is_alive(role)]

    def _is_alive(self, role: ProcessRole) -> bool:
        return self._running[role].poll() is None

    def terminate(self, roles: Sequence[ProcessRole]) -> None:
        """Send SIGTERM to processes and their children: a script may wrap a client."""
        for role in self.running(roles):
            os.killpg(self._running[role].pid, signal.SIGTERM)

    def kill(self, roles: Sequence[ProcessRole]) -> list[str]:
        """Kill processes that have not ended, with their children; return their names."""
        killed = self.running(roles)
        for role in killed:
            os.killpg(self._running[role].pid, signal.SIGKILL)
            self._running[role].wait()
        return [role.name for role in killed]


def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        lines.extend(process.stdout)


def error_in(text: str) -> str:
    """Return the last line of an output that names an error, or else the last line.

    Lines `at …` are places in a stack trace.
    """
    lines = [line.strip() for line in text.splitlines()] or [""]
    named = (each for each in reversed(lines) if ERROR.search(each) and each[:3] != "at ")
    return next(named, lines[-1])


def wait_until(condition: Callable[[], bool], deadline: float, pause_s: float = POLL_S) -> bool:
    """Wait for a condition until a monotonic time; return whether it holds."""
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
    return True
