"""The last stable offset of a partition: why consumers of committed records stop."""

from brokertwin.patterns import later
from brokertwin.recordings import sentences
from brokertwin.recordings.explain.story import SHOWN, TimelineEntry, absent
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.findings import LsoHeldBack, OpenTransactionOf
from brokertwin.recordings.history.lag import LAGS, PartitionLag
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.history.stable_offsets import StableOffset
from brokertwin.recordings.history.words import names_of
from brokertwin.wording import counted, some

TOPIC_ID = later(r"[A-Za-z0-9_-]{22}")


class LsoTimeline:
    """The last stable offset of a partition in a recording.

    `key`: topic and number, `orders-0`.

    Raises:
        UserError: no response of the recording has an offset of the partition.
    """

    def __init__(self, recording: ObservedRecording, key: str) -> None:
        lags = recording.observed(LAGS)
        topic, _, number = key.rpartition("-")
        partition = lags.entities.get(EntityKey("lag", f"{number} {topic}"))
        if not isinstance(partition, PartitionLag):
            ids = sorted(each.id.partition(" ")[::2] for each in lags.entities)
            raise absent("partition", key, [f"{name}-{n}" for n, name in ids])
        self.key = key
        self._lags = lags.entities
        self.stable = partition.stable
        held = recording.found(LAGS, LsoHeldBack)
        self._held = [each for each in held if each.partition.place == key]

    def story(self) -> list[TimelineEntry]:
        """When a transaction began that held it back, the last response, and the end."""
        entries: dict[str, TimelineEntry] = {}

        def add(line: RecordedRequest, said: str, notes: list[str]) -> None:
            entries[line.place] = TimelineEntry.at(line, said, notes, [])

        for each in self._held:
            for why in each.causes:
                if isinstance(why, OpenTransactionOf):
                    name = why.producer.name
                    add(why.began, f"{name} writes its first record at {each.stable}", [])
            add(each.line, "", [sentences.said(each)])
            if each.ended is not None:
                seconds = each.held_ms / 1000
                add(each.ended, f"the transaction has ended after {seconds:.1f} s", [])
        return sorted(entries.values(), key=lambda each: each.time)

    def ending(self) -> list[str]:
        """The last offsets; the transaction that holds back the stable one, and who waits."""
        return list(ending_of(self.stable, self.key)) or [self._unknown()]

    def _unknown(self) -> str:
        """That no Fetch shows the partition, and what may be the same one by its topic's id."""
        said = f"unknown: no Fetch response of the recording has a last stable offset of {self.key}"
        number = self.key.rpartition("-")[2]
        shown = (
            each.id.partition(" ")[::2]
            for each, other in self._lags.items()
            if isinstance(other, PartitionLag) and other.stable.stable >= 0
        )
        ids = [f"{topic}-{n}" for n, topic in shown if n == number and TOPIC_ID.fullmatch(topic)]
        if not ids:
            return said
        return f"{said}; if one of these has the topic's id, explain that: {some(ids, SHOWN)}"


def ending_of(stable: StableOffset, key: str) -> list[str]:
    """The last stable offset of a partition in lines; none if it is not recorded."""
    if stable.stable < 0:
        return []
    offsets = f"last stable offset {stable.stable}, high watermark {stable.high_watermark}"
    if stable.since is None:
        return [f"{offsets} in the last Fetch: no transaction held back consumers of {key}"]
    lines = [f"{offsets}: {counted(stable.high_watermark - stable.stable, 'record')} behind"]
    holder = stable.holder
    if holder is None:
        lines.append("the recording does not show the open transaction that holds it back")
    else:
        lines.append(
            f"it is held back by {holder.producer.name}: its transaction is open since"
            f" {holder.line.words}"
        )
    if stable.readers:
        lines.append(f"waiting for it: {names_of(stable.readers)} (isolation.level=read_committed)")
    return lines
