"""Rows of topics as exchanges: clusters, brokers, identity, halves of Kroxylicious."""

import gzip

import msgspec

from brokertwin.recordings.replay.recording import THE_BROKER
from brokertwin.streaming.live.facts import ClusterFacts
from brokertwin.streaming.live.halves import Connection
from brokertwin.streaming.live.reading import NO_ADDRESS, ReadRows, TopicLine, read_rows
from tests.streaming.live.test_operator import CAPTURE, KROXYLICIOUS
from tests.support.requestlogs import SINGLE

LOG = gzip.decompress(SINGLE.read_bytes()).splitlines()
WITHOUT_METADATA = [line for line in LOG if b'"FETCH"' in line]


def rows(lines: list[bytes], broker: int | None = None, cluster: str = "shop") -> ReadRows:
    made = [TopicLine("requests/0", n, line, cluster, broker) for n, line in enumerate(lines)]
    return read_rows(made, {})


def brokers(found: ReadRows) -> set[int]:
    return {each.exchange.line.broker for own in found.exchanges.values() for each in own}


def test_the_broker_is_that_of_the_header_the_address_or_the_name_around_the_line() -> None:
    assert brokers(rows(LOG, 5)) == {5}
    assert brokers(rows(LOG)) == {1}, "its Metadata responses have its address"
    (unknown,) = brokers(rows(WITHOUT_METADATA))
    assert unknown < NO_ADDRESS
    named = [
        msgspec.json.encode({"kubernetes": {"pod": {"name": "kafka-4"}}, "log": line.decode()})
        for line in WITHOUT_METADATA
    ]
    assert brokers(rows(named)) == {4}
    assert brokers(rows(gzip.decompress(CAPTURE.read_bytes()).splitlines())) == {THE_BROKER}


def test_addresses_of_earlier_rows_show_the_broker() -> None:
    facts = ClusterFacts(addresses=rows(LOG).addresses["shop"])
    made = [TopicLine("requests/0", n, line, "shop") for n, line in enumerate(WITHOUT_METADATA)]
    assert brokers(read_rows(made, {"shop": facts})) == {1}


def test_a_repeated_line_has_the_same_number_in_any_micro_batch() -> None:
    whole = rows(LOG, 1).exchanges["shop"]
    numbers = {each.exchange.line.place: each.number for each in whole}
    assert len({*numbers.values()}) == len(numbers)
    for place, number in [*numbers.items()][::20]:
        line = int(place.rpartition(":")[2])
        (one,) = rows([b"x"] * line + [LOG[line]], 1).exchanges["shop"]
        assert one.number == number


def test_requests_on_a_controllers_listener_are_internal_in_later_micro_batches() -> None:
    found = rows(LOG, 1)
    assert found.listeners == {"shop": {"CONTROLLER"}}
    facts = ClusterFacts(listeners=dict.fromkeys(found.listeners["shop"]))
    internal = [line for line in LOG if b'"listener":"CONTROLLER"' in line]
    made = [TopicLine("requests/0", n, line, "shop") for n, line in enumerate(internal)]
    exchanges = read_rows(made, {"shop": facts}).exchanges["shop"]
    assert exchanges and all(each.exchange.is_internal for each in exchanges)


def test_lines_without_an_exchange_are_counted() -> None:
    cut = WITHOUT_METADATA[0][:300]
    found = rows([b"INFO started", cut, *WITHOUT_METADATA[1:4]], 1)
    assert found.counts == {"lines": 5, "exchanges": 3, "damaged": 1, "other": 1}


def test_each_line_is_counted_as_one_thing() -> None:
    halves = gzip.decompress((KROXYLICIOUS / "json.log.gz").read_bytes()).splitlines()[::2]
    for lines in (LOG, [b"INFO started", b"{", *LOG[:50]], halves):
        counts = dict(rows(lines, 1).counts)
        assert counts.pop("lines") == len(lines) == sum(counts.values()), counts


def test_halves_are_paired_in_any_order_and_repeats_pair_once() -> None:
    lines = gzip.decompress((KROXYLICIOUS / "json.log.gz").read_bytes()).splitlines()
    whole = rows(lines, 1)
    halves = [half for line in lines for _, half in rows([line], 1).halves]
    by_session: dict[str, list[bytes]] = {}
    paired = 0
    sessions = {each.session for each in halves}
    for session in sessions:
        own = [each for each in halves if each.session == session]
        stored = None
        for part in (own[1::2], own[::2], own):
            connection = Connection(stored)
            made = list(connection.handle(part))
            paired += len(made)
            by_session.setdefault(session, []).extend(each.document for each in made)
            stored = connection.stored()
    unique = {document for made in by_session.values() for document in made}
    assert len(unique) == whole.counts["exchanges"]
    assert paired < 2 * len(unique) + len(halves)
