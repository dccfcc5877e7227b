"""Random interleavings of transactional producers and readers.

Readers see all records of committed transactions and none of aborted ones. The last stable offset
never decreases, and no transaction stays open.

Two of the producers share a transactional id. Two use transaction version 1, one version 2. They
are fenced, time out, and repeat requests after lost responses. Some markers are late.
"""

from dataclasses import dataclass, field

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokertwin.state.core import pending
from tests.support.examples import examples
from tests.support.transactions import PARTITIONS, TransactionBench

PARTITION = st.integers(0, PARTITIONS - 1)
PRODUCER = st.integers(0, 2)
FENCED = {47, 49, 90}
IDLE = {"Empty", "CompleteCommit", "CompleteAbort", ""}
HOUR = 3_600_000

Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class Client:
    """A producer's own view.

    Attributes:
        version: its transaction version.
        holder: its producer id and epoch; None if it has none or is fenced.
        added: partitions of its transaction (version 1).
        written: acknowledged records of its transaction.
        next_sequence: by partition.
        last: its last EndTxn, for repetition.
    """

    name: str
    version: int
    holder: tuple[int, int] | None = None
    added: set[int] = field(default_factory=set)
    written: set[Place] = field(default_factory=set)
    next_sequence: dict[int, int] = field(default_factory=dict)
    last: tuple[tuple[int, int], bool] | None = None

    def take(self, holder: tuple[int, int]) -> None:
        """Continue with a producer id and epoch, without an open transaction."""
        if holder != self.holder:
            self.next_sequence.clear()
        self.holder = holder
        self.close()

    def close(self) -> None:
        self.added.clear()
        self.written = set()

    def fenced(self) -> None:
        self.holder, self.last = None, None
        self.close()


class Interleavings(RuleBasedStateMachine):
    """Requests of three producers, time, and late markers."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = TransactionBench(may_hold=True)
        self.clients = [Client("t1", 1), Client("t1", 2), Client("t2", 1)]
        self.committed: set[Place] = set()
        self.stable = [0] * PARTITIONS
        self.late: list[str] = []

    @initialize()
    def begin(self) -> None:
        """Initialize the last producer of each transactional id."""
        for who in (1, 2):
            self.init(who, 60_000, False)

    @rule(who=PRODUCER, timeout_ms=st.sampled_from([1000, 60_000]), is_known=st.booleans())
    def init(self, who: int, timeout_ms: int, is_known: bool) -> None:
        client = self.clients[who]
        held = client.holder if is_known and client.holder else (-1, -1)
        response = self.bench.init(client.name, timeout_ms, held)
        note(f"{who} init {held}: {response}")
        if response.error == 0:
            client.last = None
            client.take((response.producer_id, response.epoch))
        elif response.error in FENCED:
            client.fenced()

    @rule(who=PRODUCER, partition=PARTITION)
    def add(self, who: int, partition: int) -> None:
        client = self.clients[who]
        if client.holder is None or client.version == 2:
            return
        (error,) = self.bench.add(client.name, client.holder, a=[partition])["a"]
        note(f"{who} add {partition}: {error}")
        if error == 0:
            client.added.add(partition)
            client.last = None
        elif error in FENCED:
            client.fenced()

    @rule(who=PRODUCER, partitions=st.lists(PARTITION, min_size=1, max_size=3))
    def write(self, who: int, partitions: list[int]) -> None:
        for partition in partitions:
            self.add(who, partition)
            self.produce(who, partition, False)

    @rule(who=PRODUCER, partitions=st.lists(PARTITION, min_size=1, max_size=3))
    def write_and_end(self, who: int, partitions: list[int]) -> None:
        self.write(who, partitions)
        self.end(who, len(partitions) % 3 > 0, len(partitions) == 1)

    @rule(who=PRODUCER, partition=PARTITION, is_repeated=st.booleans())
    def produce(self, who: int, partition: int, is_repeated: bool) -> None:
        client = self.clients[who]
        if client.holder is None or (client.version == 1 and partition not in client.added):
            return
        sequence = client.next_sequence.get(partition, 0)
        version = 12 if client.version == 2 else 11
        place = self._produce(client, client.holder, sequence, partition, version)
        note(f"{who} produce {sequence} to {partition}: {place}")
        if place is None:
            return
        client.written.add(place)
        client.last = None
        client.next_sequence[partition] = sequence + 1
        if is_repeated:
            again = self._produce(client, client.holder, sequence, partition, version)
            assert again == place

    def _produce(
        self, client: Client, holder: tuple[int, int], sequence: int, partition: int, version: int
    ) -> Place | None:
        error, offset = self.bench.produce(client.name, holder, sequence, partition, version)
        if error in FENCED:
            client.fenced()
        return None if error else (partition, offset)

    @rule(who=PRODUCER, is_commit=st.booleans(), is_late=st.booleans())
    def end(self, who: int, is_commit: bool, is_late: bool) -> None:
        client = self.clients[who]
        if client.holder is None:
            return
        event = f"end-{len(self.bench.responses)}"
        response = self._end(client, client.holder, is_commit, id=event, isHeld=is_late)
        note(f"{who} end {is_commit} of {client.written}: {response}")
        error = response["errorCode"]
        if error in FENCED:
            client.fenced()
        if error:
            return
        if pending.has_late_messages(self.bench.cell.tables.pending, event):
            self.late.append(event)
        self.committed |= client.written if is_commit else set()
        client.last = (client.holder, is_commit)
        if client.version == 2:
            client.take((response["producerId"], response["producerEpoch"]))
        client.close()

    @rule(who=PRODUCER)
    def end_again(self, who: int) -> None:
        """Repeat an EndTxn whose response was lost: it changes nothing."""
        client = self.clients[who]
        if client.last is None:
            return
        response = self._end(client, *client.last)
        assert response["errorCode"] in {0, 51, *FENCED}, response
        if client.version == 2 and response["errorCode"] == 0:
            assert (response["producerId"], response["producerEpoch"]) == client.holder

    def _end(
        self, client: Client, holder: tuple[int, int], is_commit: bool, **event: object
    ) -> dict[str, int]:
        version = 5 if client.version == 2 else 3
        return self.bench.end(client.name, holder, is_commit, version, **event)

    @rule()
    def write_markers(self) -> None:
        if self.late:
            event = self.late.pop(0)
            complete = {"id": f"{event}/complete", "cluster": "bench", "kind": "complete"}
            self.bench.handle({**complete, "of": event, "time": self.bench.now})

    @rule(milliseconds=st.sampled_from([1, 1, 500, 500, 9_999, 10_000, 70_000, 200 * HOUR]))
    def pass_time(self, milliseconds: int) -> None:
        self.bench.tick(milliseconds)
        assert not self.bench.dead_letters(self.bench.last)

    @rule()
    def reload(self) -> None:
        self.bench.reload()

    @invariant()
    def readers_see_what_is_committed_and_stable(self) -> None:
        for partition in range(PARTITIONS):
            stable, seen = self._read(partition)
            assert stable >= self.stable[partition], "the last stable offset has decreased"
            self.stable[partition] = stable
            committed = {offset for p, offset in self.committed if p == partition}
            assert seen == {offset for offset in committed if offset < stable}

    def _read(self, partition: int) -> tuple[int, set[int]]:
        """Return the last stable offset and the offsets that a reader keeps."""
        response = self.bench.read(partition)
        aborted = sorted(
            (each["firstOffset"], each["producerId"]) for each in response["abortedTransactions"]
        )
        seen: set[int] = set()
        dropped: set[int] = set()
        for batch in response.get("batches", ()):
            last = batch["baseOffset"] + batch["lastOffsetDelta"]
            while aborted and aborted[0][0] <= last:
                dropped.add(aborted.pop(0)[1])
            if batch.get("isControl"):
                dropped.discard(batch["producerId"])
            elif batch["producerId"] not in dropped:
                seen.add(last)
        return response["lastStableOffset"], seen

    def teardown(self) -> None:
        """In the end nothing is open, and all committed records are visible."""
        while self.late:
            self.write_markers()
        self.bench.tick(60_000)
        self.bench.tick(20_000)
        for client in self.clients:
            assert self.bench.state_of(client.name) in IDLE
        for partition in range(PARTITIONS):
            response = self.bench.read(partition)
            assert response["lastStableOffset"] == response["highWatermark"]
        self.readers_see_what_is_committed_and_stable()
        assert self.bench.dead_letters() == []


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=examples(10), stateful_step_count=30)
