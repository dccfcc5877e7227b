"""Findings about replicas: in-sync sets that shrink and flap, leaders, high watermarks.

They are the observer's (`state/observed`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from brokertwin.recordings.audit.finding import AuditFinding, Evidence, Severity, counted
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.words import times
from brokertwin.recordings.rules import Rule
from brokertwin.state.observed.replicas import UNKNOWN
from brokertwin.state.observed.replication import UNEXPLAINED, WatermarkSample

FLAPPING = 2
"""A broker that leaves an in-sync set so often flaps."""

CHANGES = 3
"""A partition that changes its leader so often has a broker that comes and goes."""

SHRUNK = Rule(
    "A follower that was not caught up for replica.lag.time.max.ms leaves the in-sync set, and"
    " comes back when it has all below the high watermark.",
    "Partition.getOutOfSyncReplicas, isFollowerInSync",
    "Look at the broker that left: stopped, slow disks or network, too few num.replica.fetchers."
    " While it is away fewer copies are safe, and acks=all may be refused.",
)
LEADER = Rule(
    "A partition gets a new leader if its leader goes, if an election is requested, or if the"
    " preferred leader comes back.",
    "PartitionChangeBuilder, KIP-951",
    "Look at why the broker went. Clients try again by themselves.",
)
HIGH_WATERMARK = Rule(
    "The high watermark is the least log end offset of those in sync, and does not move below"
    " min.insync.replicas.",
    "Partition.maybeIncrementLeaderHW",
    "Look at `brokertwin report` of this partition, with --broker-config of the brokers: the"
    " response differs from the rule.",
)
EARLY = Rule(
    "A broker that joins the in-sync set has all records below the high watermark. A broker that"
    " leaves it was not caught up for replica.lag.time.max.ms.",
    "Partition.isFollowerInSync, getOutOfSyncReplicas",
    "Look at `brokertwin report` of this partition.",
)


def shrunk(history: History) -> Iterator[AuditFinding]:
    """Partitions whose in-sync set lost a broker; a warning where that happens again and again."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for name, former, sample in _steps(history.observer.isr_samples):
        for broker in sorted(set(former.isr) - set(sample.isr)):
            said = f"broker {broker} left"
            found[name].append(Evidence(sample.place, sample.time, "", said))
    for name, evidence in found.items():
        brokers = Counter(each.said for each in evidence)
        is_flapping = brokers.most_common(1)[0][1] >= FLAPPING
        yield AuditFinding(
            "isr-shrunk",
            Severity.WARNING if is_flapping else Severity.INFO,
            f"partition {name}",
            "The in-sync set shrank: "
            + ", ".join(f"{said} {times(count)}" for said, count in sorted(brokers.items()))
            + ".",
            SHRUNK,
            evidence,
        )


def led(history: History) -> Iterator[AuditFinding]:
    """Partitions whose leader changed; a warning where that happens again and again."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for name, former, sample in _steps(history.observer.samples):
        if UNKNOWN not in (former.leader, sample.leader) and former.leader != sample.leader:
            said = f"broker {sample.leader} leads in epoch {sample.leader_epoch}"
            found[name].append(Evidence(sample.place, sample.time, "", said))
    for name, evidence in found.items():
        yield AuditFinding(
            "leader-changed",
            Severity.WARNING if len(evidence) >= CHANGES else Severity.INFO,
            f"partition {name}",
            f"{counted(len(evidence), 'change')} of the leader; last: {evidence[-1].said}.",
            LEADER,
            evidence,
        )


def told(history: History) -> Iterator[AuditFinding]:
    """High watermarks that leaders told and the rule does not give, without a reason."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in history.observer.differences:
        if each.why == UNEXPLAINED and history.is_covered(each.time):
            said = f"broker {each.leader} told {each.reported}, by the rule it is {each.derived}"
            place = f"{each.topic}-{each.partition}"
            found[place].append(Evidence(each.place, each.time, "", said))
    for name, evidence in found.items():
        what = f"{counted(len(evidence), 'high watermark')} differ; first: {evidence[0].said}."
        yield AuditFinding(
            "hw-differs", Severity.ERROR, f"partition {name}", what, HIGH_WATERMARK, evidence
        )


def early(history: History) -> Iterator[AuditFinding]:
    """Brokers that a leader wanted in its in-sync set, or out, against the rule."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in history.observer.isr_changes:
        if each.why and history.is_covered(each.time):
            verb = "in" if each.is_added else "out"
            said = f"leader {each.leader} wanted broker {each.broker} {verb}, and {each.why}"
            place = f"{each.topic}-{each.partition}"
            found[place].append(Evidence(each.place, each.time, "", said))
    for name, evidence in found.items():
        what = f"{counted(len(evidence), 'change')} of the in-sync set; first: {evidence[0].said}."
        yield AuditFinding(
            "isr-against-rule", Severity.ERROR, f"partition {name}", what, EARLY, evidence
        )


def _steps(
    samples: Iterable[WatermarkSample],
) -> Iterator[tuple[str, WatermarkSample, WatermarkSample]]:
    """The partition, its former sample and the next, for every two that follow each other."""
    last: dict[str, WatermarkSample] = {}
    for sample in samples:
        name = f"{sample.topic}-{sample.partition}"
        if name in last:
            yield name, last[name], sample
        last[name] = sample


FINDERS = (shrunk, led, told, early)
