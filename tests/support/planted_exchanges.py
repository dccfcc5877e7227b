"""Recordings with planted faults: high watermarks, in-sync sets and commits against the rules."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.bodies import follower_of
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.observed.watching import ObservedReplication
from tests.support.audits import Unfolded

FAR = 1_000_000
"""Records between the end of a log and a planted offset."""

SHARE = 0.1
"""Share of the exchanges with a fault."""


def planted(exchanges: Sequence[RecordedExchange], seed: int) -> list[RecordedExchange]:
    """The exchanges with faults, in the order of their requests."""
    chance, found = random.Random(seed), list[RecordedExchange]()
    for each in exchanges:
        plant = _PLANTS.get(each.line.api)
        is_drawn = plant is not None and chance.random() < SHARE
        found += plant(each, chance) if plant is not None and is_drawn else [each]
        if each.line.api == "ALTER_PARTITION" and not each.code:
            found.append(_joins_early(each, chance))
    return sorted(found, key=lambda each: each.line.time)


def _higher(exchange: RecordedExchange, chance: random.Random) -> Iterator[RecordedExchange]:
    """A consumer's Fetch with high watermarks that followers have not reached."""
    if follower_of(exchange.request) >= 0:
        yield exchange
        return
    response = copy.deepcopy(exchange.response)
    for topic in response.get("responses") or ():
        for partition in topic["partitions"]:
            partition["highWatermark"] += chance.randint(1, 5)
    yield msgspec.structs.replace(exchange, response=response)


def _far(exchange: RecordedExchange, chance: random.Random) -> Iterator[RecordedExchange]:
    """A commit far beyond the log end, or at its begin."""
    request: Any = copy.deepcopy(exchange.request)
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            partition["committedOffset"] = chance.choice([0, FAR])
    yield msgspec.structs.replace(exchange, request=request)


def _joins_early(exchange: RecordedExchange, chance: random.Random) -> RecordedExchange:
    """A refused AlterPartition that wants all replicas in sync, some seconds after another one."""
    request, response = copy.deepcopy(exchange.request), copy.deepcopy(exchange.response)
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            partition["newIsrWithEpochs"] = [{"brokerId": n, "brokerEpoch": -1} for n in (1, 2, 3)]
    for topic in response["topics"]:
        for partition in topic["partitions"]:
            partition["errorCode"] = Error.INVALID_UPDATE_VERSION
    later, line = chance.randint(500, 5_000), exchange.line
    moved = msgspec.structs.replace(
        line, place=f"planted {line.place}", time=line.time + later, end=line.end + later
    )
    times = {"taken": exchange.taken + later, "made": exchange.made + later}
    return msgspec.structs.replace(
        exchange, line=moved, request=request, response=response, **times
    )


_PLANTS: dict[str, Callable[[RecordedExchange, random.Random], Iterator[RecordedExchange]]] = {
    "FETCH": _higher,
    "OFFSET_COMMIT": _far,
    "TXN_OFFSET_COMMIT": _far,
}


def audit_of(exchanges: Sequence[RecordedExchange]) -> list[AuditFinding]:
    replication = ObservedReplication(exchanges)
    history = History((), replication)
    known = KnownFacts(dict(replication.known.topics))
    of_clients = [each for each in replication.exchanges if not each.is_internal]
    history.recording = ObservedRecording(of_clients, known=known)
    return findings(Unfolded(history))
