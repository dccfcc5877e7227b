"""Reading without a group: partitions and offsets by the caller, and where partitions end."""

from brokertwin.clients.fetching_client import ReaderClient
from brokertwin.clients.partitions import TopicPartition
from tests.support.bench_network import World

TOPIC = "changes"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def world() -> tuple[World, ReaderClient]:
    """Four records in the first partition, one in the second."""
    made = World((1, 2))
    made.bench.topic(TOPIC, 2)
    producer = made.producer()
    for partition in (P0, P0, P0, P0, P1):
        producer.send(made.now, partition, 10)
    made.run(500)
    return made, made.reader()


def test_partitions_are_read_from_given_offsets() -> None:
    made, reader = world()
    reader.read({P0: 2, P1: None})
    made.run(1_500)
    assert sorted((at.partition, offset) for at, offset, _ in made.read[reader]) == [
        (0, 2),
        (0, 3),
        (1, 0),
    ]
    assert (reader.position(P0), reader.position(P1)) == (4, 1)
    reader.read({P1: None})
    assert (reader.position(P0), reader.position(P1)) == (None, 1)


def test_end_offsets_are_returned_for_each_request() -> None:
    made, reader = world()
    reader.read({P0: None})
    reader.request_ends([P0])
    made.run(1_000)
    assert reader.ends == {P0: 4}
    producer = made.producer()
    producer.send(made.now, P0, 10)
    made.run(500)
    reader.request_ends([P0])
    assert reader.ends == {}
    made.networks[reader].is_mute = True
    made.run(200)
    for node in made.networks[reader].nodes:
        made.networks[reader].cut(node)
    made.networks[reader].is_mute = False
    made.run(1_500)
    assert reader.ends == {P0: 5}


def test_a_response_to_an_earlier_request_is_ignored() -> None:
    made, reader = world()
    reader.read({P0: None})
    made.run(500)
    reader.request_ends([P0])
    made.networks[reader].is_mute = True
    made.run(100)
    producer = made.producer()
    producer.send(made.now, P0, 10)
    made.run(500)
    reader.request_ends([P0])
    made.networks[reader].is_mute = False
    made.run(1_000)
    assert reader.ends == {P0: 5}


def test_a_reader_without_partitions_sends_no_fetch() -> None:
    made, reader = world()
    made.run(1_000)
    assert not {"FETCH", "LIST_OFFSETS"} & made.networks[reader].requested.keys()
    assert made.read[reader] == []
