"""The content of an incident page: what a recording shows over time, as one JSON document.

    {"title", "files", "t0", "span", "names": {…}, "exchanges": {columns}, "bodies": {…},
     "lanes": […], "findings": […], "left": {…}}

* Times are ms since `t0`, which is in ms since 1970.
* `exchanges` has one array for each column. Clients, APIs and files are indices into `names`.
* A lane is an entity: `spans` are drawn, `samples` are the changes of its state. A sample is
  `[time, exchange, {field: value}]`; a value of null removes the field. The state at a moment is
  the sum of the samples until then.
* `marks` of a lane are `[time, exchange, tone, text]`.
* `bodies` maps an exchange to its request and response. A page has those of its findings and of
  the changes first, up to `BODY_BYTES`; `left` counts what was left out.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from brokertwin.page.groups import GroupsOverTime
from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.batches import ProducerInPartition
from brokertwin.recordings.history.entity import EntityKey, ObservedEntity
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.findings import WatermarkSample
from brokertwin.recordings.history.groups import ObservedGroup
from brokertwin.recordings.history.producers import ObservedProducer
from brokertwin.recordings.history.recording import KINDS
from brokertwin.recordings.history.sessions import ObservedSession, ObservedSessionCache
from brokertwin.wording import counted

State = dict[str, Any]
"""A flat state: field to a number, a text or null."""

SAMPLES_MAX = 2_000
"""Changes of a lane that a page has; those of a busier lane are merged in equal spans of time."""

LANES_MAX = 400
"""Lanes of a kind that a page has: those with the most findings, then with the most exchanges."""

BODY_BYTES = 6_000_000
"""JSON of requests and responses that a page has, before compression."""

EVIDENCE_MAX = 200
"""Lines of a finding that are marked."""

KINDS_OF_LANES = ("client", "group", "transaction", "producer", "partition", "session", "broker")
SAMPLED = {
    "group": "group",
    "producer": "transaction",
    "producer-id": "producer",
    "producer-in-partition": "producer",
    "session-cache": "session",
}
"""The kinds of entities whose states are sampled, and their lanes."""


class _Lane:
    """An entity while its recording is walked through."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.samples: list[tuple[int, int, State]] = []
        self.state: State = {}
        self.parts: dict[object, State] = {}
        self.times: list[int] = []
        self.errors: list[int] = []
        self.marks: list[tuple[int, int, str, str]] = []
        self.is_own = False

    def sample(self, time: int, exchange: int, part: object, state: State) -> None:
        """Note the state of a part of the entity, if it has changed."""
        before = self.parts.get(part, {})
        if state == before:
            return
        self.parts[part] = state
        change = {name: value for name, value in state.items() if before.get(name) != value}
        change |= dict.fromkeys(before.keys() - state.keys())
        self.samples.append((time, exchange, change))


def document(
    history: History, findings: Sequence[AuditFinding], files: Sequence[str]
) -> dict[str, Any]:
    exchanges = _exchanges(history, findings)
    begin, end = history.span
    span = max(1, round(end - begin))
    walk = _Walk(history, round(begin))
    for index, exchange in enumerate(exchanges):
        walk.take(index, exchange)
    walk.until(end)
    walk.replicas(history)
    walk.brokers(history)
    found = [walk.finding(number, each) for number, each in enumerate(findings)]
    lanes, lanes_left = walk.shown_lanes(span)
    wanted = walk.wanted(found, lanes)
    kept = _bodies(exchanges, wanted)
    return {
        "title": _title(findings),
        "files": list(files),
        "t0": round(begin),
        "span": span,
        "names": {
            "clients": list(walk.clients),
            "apis": list(walk.apis),
            "files": list(walk.files),
            "errors": {code: error_name(code) for code in sorted(walk.codes)},
            "unnamed": list(walk.unnamed),
        },
        "exchanges": walk.columns,
        "bodies": kept,
        "lanes": lanes,
        "findings": found,
        "left": {"bodies": len(exchanges) - len(kept), "lanes": lanes_left},
    }


def _title(findings: Sequence[AuditFinding]) -> str:
    """The worst finding, and how many others there are."""
    if not findings:
        return "Nothing was found"
    worst, others = findings[0], len(findings) - 1
    more = f", and {counted(others, 'other finding')}" if others else ""
    return f"{worst.kind}: {worst.subject}{more}"


def _exchanges(history: History, findings: Sequence[AuditFinding]) -> Sequence[RecordedExchange]:
    """The exchanges of clients, and those among brokers that show a finding or a change."""
    own = history.recording.exchanges
    places = {line.place for each in findings for line in each.evidence}
    places |= {sample.place for sample in history.replication.samples}
    places -= {each.line.place for each in own}
    more = [each for each in history.replication.exchanges if each.line.place in places]
    return sorted([*own, *more], key=lambda each: each.line.end) if more else own


class _Walk:
    """Goes through the exchanges once, in the order of their responses."""

    def __init__(self, history: History, begin: int) -> None:
        self._known = history.recording.known
        self._begin = begin
        self._groups = GroupsOverTime(history.recording.exchanges, self._known)
        self._entities: dict[EntityKey, ObservedEntity] = {}
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._places: dict[str, int] = {}
        self._of: list[list[_Lane]] = []
        self.clients: dict[str, int] = {}
        self.apis: dict[str, int] = {}
        self.files: dict[str, int] = {}
        self.codes: set[int] = set()
        self.unnamed: dict[str, None] = {}
        names = ("time", "took", "client", "api", "version", "error", "broker", "file", "line")
        self.columns: dict[str, list[int]] = {name: [] for name in names}

    def lane(self, kind: str, name: str) -> _Lane:
        lane = self._lanes.get((kind, name))
        if lane is None:
            lane = self._lanes[kind, name] = _Lane(kind, name)
        return lane

    def take(self, index: int, exchange: RecordedExchange) -> None:
        """Note an exchange: its columns, its lanes, and the states that it changed."""
        line, columns = exchange.line, self.columns
        self.until(line.end)
        code = next(iter(bodies.errors(exchange.response)), 0)
        file, _, number = line.place.rpartition(":")
        self._places[line.place] = index
        if code:
            self.codes.add(code)
        values = (
            *(line.time - self._begin, line.end - line.time),
            self.clients.setdefault(line.name, len(self.clients)),
            self.apis.setdefault(line.api, len(self.apis)),
            *(line.version, code, line.broker),
            self.files.setdefault(file, len(self.files)),
            int(number) if number.isdecimal() else -1,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
        lanes = [self.lane("client", line.name)]
        lanes[0].is_own = line.is_own
        lanes += self._sampled(index, exchange)
        for lane in dict.fromkeys(lanes):
            lane.times.append(line.time - self._begin)
            if code:
                lane.errors.append(index)
        self._of.append(list(dict.fromkeys(lanes)))
        self._watermarks(index, exchange)

    def _sampled(self, index: int, exchange: RecordedExchange) -> Iterator[_Lane]:
        for kind in KINDS.values():
            if exchange.line.api not in kind.apis or kind.name not in SAMPLED:
                continue
            for key, part in kind.parts_of(exchange, self._known):
                entity = self._entities.get(key)
                if entity is None:
                    entity = self._entities[key] = kind.machine(key)
                # Exchanges come in the order of their responses, so that none has to wait. The
                # causes that a machine looks ahead for are in the findings of the whole recording.
                deque(entity.take(part, self._known), maxlen=0)
                if entity.LOOKAHEAD_MS:
                    deque(entity.judge(part, self._known), maxlen=0)
                lane = self.lane(SAMPLED[key.kind], _name_of(key, entity, exchange))
                for name, state in self._states(key, entity, exchange):
                    lane.sample(exchange.line.end - self._begin, index, name, state)
                yield lane

    def _states(
        self, key: EntityKey, entity: ObservedEntity, exchange: RecordedExchange
    ) -> Iterator[tuple[object, State]]:
        """The parts of an entity's state that an exchange may have changed."""
        if isinstance(entity, ObservedGroup):
            yield key, self._groups.after(key, entity, exchange)
        elif isinstance(entity, ObservedProducer):
            yield key, _transaction(entity)
        elif isinstance(entity, ProducerInPartition):
            yield key, _batches(entity)
        else:
            assert isinstance(entity, ObservedSessionCache)
            numbers = {body.get("sessionId", 0) for body in (exchange.request, exchange.response)}
            for number in sorted(numbers - {0}):
                yield number, _session(number, entity.sessions.get(number))

    def until(self, time: float) -> None:
        """Note the changes of groups that no request made until a time, in ms since 1970."""
        for at, key, state in self._groups.until(time):
            self.lane("group", key.id).sample(at - self._begin, -1, key, state)

    def _watermarks(self, index: int, exchange: RecordedExchange) -> None:
        """High watermarks and last stable offsets that responses to Fetch show."""
        if exchange.line.api != "FETCH":
            return
        for topic in exchange.response.get("responses") or ():
            for part in topic["partitions"]:
                if part.get("errorCode") or part.get("highWatermark", -1) < 0:
                    continue
                name = f"{self._known.topic(topic)}-{part['partitionIndex']}"
                if not topic.get("topic") and str(topic.get("topicId")) not in self._known.topics:
                    self.unnamed[str(topic.get("topicId"))] = None
                state = {"high watermark": part["highWatermark"]}
                if part.get("lastStableOffset", -1) >= 0:
                    state["last stable offset"] = part["lastStableOffset"]
                lane = self.lane("partition", name)
                lane.times.append(exchange.line.time - self._begin)
                before = lane.parts.get("offsets", {})
                if all(before.get(each, -1) <= value for each, value in state.items()):
                    lane.sample(exchange.line.end - self._begin, index, "offsets", before | state)

    def replicas(self, history: History) -> None:
        """Leaders and in-sync replicas, as the replication machine knows them."""
        for sample in history.replication.samples:
            lane = self.lane("partition", f"{sample.topic}-{sample.partition}")
            at = self._places.get(sample.place, -1)
            lane.sample(round(sample.time) - self._begin, at, "replicas", _replicas(sample))
        for lane in self._lanes.values():
            lane.samples.sort(key=lambda each: each[0])

    def brokers(self, history: History) -> None:
        """When each broker wrote its log, and its states at the controller."""
        facts = history.replication.known
        for broker, (first, last) in sorted(facts.logs.items()):
            lane = self.lane("broker", f"broker {broker}")
            lane.sample(max(0, first - self._begin), -1, "log", {"log": "recorded"})
            if last < history.span[1] - SILENT_MS:
                lane.sample(last - self._begin + 1, -1, "log", {"log": "ended"})
        for broker, presence in sorted(facts.presences.items()):
            lane = self.lane("broker", f"broker {broker}")
            starts = [span.begin for span in presence.spans[1:]] + [facts.last]
            for span, next_start in zip(presence.spans, starts, strict=True):
                state = {"controller": span.state.name.lower()}
                lane.sample(max(0, round(span.begin) - self._begin), -1, "state", state)
                if next_start - span.end > SILENT_MS:
                    state = {"controller": "no heartbeat"}
                    lane.sample(round(span.end) + 1 - self._begin, -1, "state", state)
        for lane in self._lanes.values():
            if lane.kind == "broker":
                lane.samples.sort(key=lambda each: each[0])

    def finding(self, number: int, found: AuditFinding) -> dict[str, Any]:
        """A finding with the exchanges of its evidence, each marked in its lanes."""
        made = found.document(EVIDENCE_MAX)
        rows = []
        kind, _, name = found.subject.partition(" ")
        keys = (kind, name), (kind, found.subject), ("transaction", name)
        about = [self._lanes[key] for key in keys if key in self._lanes][:1]
        for each in made["evidence"]:
            index = self._places.get(each["place"], -1)
            time = round(each["time"]) - self._begin
            rows.append({"at": index, "t": time, "said": each["said"], "place": each["place"]})
            for lane in dict.fromkeys([*about, *(self._of[index] if index >= 0 else ())]):
                lane.marks.append((time, index, made["severity"], made["kind"]))
        made["evidence"] = rows
        made["from"], made["to"] = (round(made[name]) - self._begin for name in ("from", "to"))
        made["consequences"] = [
            each | {name: round(each[name]) - self._begin for name in ("from", "to")}
            for each in made["consequences"]
        ]
        return made | {"number": number}

    def shown_lanes(self, span: int) -> tuple[list[dict[str, Any]], int]:
        """The lanes of the page, and how many are left out."""
        shown: list[dict[str, Any]] = []
        left = 0
        for kind in KINDS_OF_LANES:
            lanes = [each for each in self._lanes.values() if each.kind == kind]
            lanes = [each for each in lanes if each.times or each.samples]
            lanes.sort(key=lambda e: (e.is_own, -len(e.marks), -len(e.times), e.name))
            left += max(0, len(lanes) - LANES_MAX)
            shown += [_shown(each, span) for each in lanes[:LANES_MAX]]
        return shown, left

    def wanted(
        self, found: Sequence[Mapping[str, Any]], lanes: Sequence[Mapping[str, Any]]
    ) -> Iterator[int]:
        """Exchanges in the order in which their bodies are worth having."""
        yield from (row["at"] for each in found for row in each["evidence"][:20])
        yield from (row["at"] for each in found for row in each["evidence"][20:])
        yield from (at for at, code in enumerate(self.columns["error"]) if code)
        spans = [span for lane in lanes for span in lane["spans"]]
        yield from (span[4] for span in spans)
        yield from (sample[1] for lane in lanes for sample in lane["samples"])
        yield from range(len(self.columns["time"]))


def _name_of(key: EntityKey, entity: ObservedEntity, exchange: RecordedExchange) -> str:
    if isinstance(entity, ProducerInPartition):
        return f"producer {entity.producer}"
    if isinstance(entity, ObservedSessionCache):
        return f"broker {exchange.line.broker}"
    return f"producer {key.id}" if key.kind == "producer-id" else key.id


def _session(number: int, session: ObservedSession | None) -> State:
    if session is None or session.closed is not None or session.used is None:
        return {}
    parts = [f"epoch {session.epoch}"]
    parts += [counted(session.partitions, "partition")] if session.partitions >= 0 else []
    return {f"session {number}": ", ".join([*parts, session.client or "?"])}


def _transaction(entity: ObservedProducer) -> State:
    state: State = {"transaction": "none"}
    if entity.given:
        state |= {"producer id": entity.given[-1].producer_id, "epoch": entity.given[-1].epoch}
    if (opened := entity.transaction) is not None:
        state |= {"transaction": f"{opened.number} open", "begun by": opened.began.name}
        state |= {f"partition {place}": f"{n} batches" for place, n in opened.places.items()}
        state |= {f"offsets of group {name}": "pending" for name in opened.groups}
    return state


def _batches(entity: ProducerInPartition) -> State:
    place = f"{entity.topic}-{entity.partition}"
    kept = [each.batch for each in entity.newest_batches]
    return {
        f"{place} batch {number}": f"epoch {each.epoch}, {each.first}..{each.last} at {each.offset}"
        for number, each in enumerate(kept, 1)
    }


def _replicas(sample: WatermarkSample) -> State:
    state: State = {"leader": sample.leader, "leader epoch": sample.leader_epoch}
    state["in sync"] = ", ".join(map(str, sample.isr)) or "unknown"
    return state | {f"log end of {broker}": end for broker, end in sorted(sample.ends.items())}


SILENT_MS = 3_000
"""Without a heartbeat for longer a broker is shown as silent; Kafka's default interval is 2 s."""

SPAN_FIELDS = {
    "group": ("generation", "epoch", "members", "silent", "deleted by"),
    "transaction": ("transaction", "epoch"),
    "partition": ("leader", "in sync"),
    "broker": ("controller", "log"),
}
"""The fields whose values name the spans of a lane."""

CURVES = {"partition": ("high watermark", "last stable offset")}
"""The fields that a lane draws as curves."""


def _shown(lane: _Lane, span: int) -> dict[str, Any]:
    samples = _merged(lane.samples, span)
    return {
        "kind": lane.kind,
        "name": lane.name,
        "isOwn": lane.is_own,
        "count": len(lane.times),
        "errors": len(lane.errors),
        "density": _density(lane.times, span),
        "samples": samples,
        "spans": _spans(lane.kind, samples, span),
        "curves": list(CURVES.get(lane.kind, ())),
        "marks": sorted(lane.marks)[: EVIDENCE_MAX * 10],
    }


def _merged(samples: list[tuple[int, int, State]], span: int) -> list[tuple[int, int, State]]:
    """At most SAMPLES_MAX changes: those of one span of time become one, at its last change."""
    if len(samples) <= SAMPLES_MAX:
        return samples
    width = span / SAMPLES_MAX
    merged: dict[int, tuple[int, int, State]] = {}
    for time, exchange, change in samples:
        bucket = int(time / width)
        _, _, before = merged.get(bucket, (0, 0, {}))
        merged[bucket] = time, exchange, before | change
    return list(merged.values())


def _spans(kind: str, samples: Iterable[tuple[int, int, State]], end: int) -> list[list[Any]]:
    """Spans `[from, to, label, tone, exchange]` of equal values of the fields of `SPAN_FIELDS`."""
    fields = SPAN_FIELDS.get(kind, ())
    spans: list[list[Any]] = []
    state: State = {}
    for time, exchange, change in samples:
        state |= change
        if not fields or not change.keys() & set(fields):
            continue
        label, tone = _label(kind, state)
        if spans and spans[-1][2:4] == [label, tone]:
            continue
        if spans:
            spans[-1][1] = time
        spans.append([time, end, label, tone, exchange])
    return [each for each in spans if each[2]]


def _label(kind: str, state: State) -> tuple[str, str]:
    """The label of a span and its tone: `calm`, `busy`, `bad` or `gone`."""
    if kind == "group":
        numbers = {name: state.get(name) for name in ("generation", "epoch")}
        parts = [f"{name} {number}" for name, number in numbers.items() if number is not None]
        members, silent = state.get("members"), state.get("silent")
        if state.get("deleted by") is not None:
            return "deleted", "gone"
        if members is not None:
            parts.append(f"{silent} of {members} silent" if silent else counted(members, "member"))
        return ", ".join(parts), "busy" if silent else "gone" if members == 0 else "calm"
    if kind == "transaction":
        value = str(state.get("transaction"))
        return ("", "gone") if value == "none" else (f"transaction {value}", "busy")
    if kind == "partition":
        leader = state.get("leader", -1)
        words = f"leader {leader}" if leader is not None and leader >= 0 else "no leader"
        tone = "bad" if words == "no leader" else "calm"
        return f"{words}, in sync {state.get('in sync')}", tone
    at_controller, ended = state.get("controller"), "its log has ended"
    has_ended = state.get("log") == "ended"
    if at_controller is None:
        return (ended, "gone") if has_ended else ("log recorded", "calm")
    tone = "calm" if at_controller == "active" else "bad"
    return f"{at_controller}, {ended}" if has_ended else str(at_controller), tone


DENSITY = 600
"""Spans of time of which a lane counts the exchanges."""


def _density(times: Iterable[int], span: int) -> list[int]:
    """Pairs of a span's number and its exchanges, one after the other."""
    counts = Counter(min(DENSITY - 1, time * DENSITY // span) for time in times if time >= 0)
    return [value for pair in sorted(counts.items()) for value in pair]


def _bodies(exchanges: Sequence[RecordedExchange], numbers: Iterable[int]) -> dict[int, Any]:
    """Requests and responses in the order in which they are wanted, while there is room."""
    kept: dict[int, Any] = {}
    room = BODY_BYTES
    for index in numbers:
        if index < 0 or index in kept:
            continue
        body = {"request": exchanges[index].request, "response": exchanges[index].response}
        room -= len(msgspec.json.encode(body))
        if room < 0:
            break
        kept[index] = body
    return kept
