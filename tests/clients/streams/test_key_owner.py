"""Find the instance that owns a key."""

from brokertwin.clients.streams.applications import COUNTS, word_count
from brokertwin.clients.streams.key_owner import key_owner, store_owners
from brokertwin.clients.streams.stores import KeyValueStore
from brokertwin.clients.streams.stream_thread import StreamThread
from brokertwin.clients.streams.streams_protocol import HostInfo
from tests.support.streams_world import StreamsWorld

HOSTS = {"a-1": HostInfo("a", 1), "b-1": HostInfo("b", 2)}
WORDS = [b"to", b"be", b"or", b"not", b"that", b"is", b"the", b"question"]


def stored(thread: StreamThread, word: bytes) -> bytes | None:
    found = [task.stores.by_name for task in thread.tasks.values()]
    values = [stores[COUNTS].get(word) for stores in found if COUNTS in stores]
    return next((value for value in values if value is not None), None)


def test_example_20_each_instance_finds_a_keys_owner_after_a_failure() -> None:
    topology = word_count("text", "counts")
    made = StreamsWorld(topology, {"text": 4, "counts": 1}, num_standby_replicas=1)
    for name, host in HOSTS.items():
        made.start(name[0], end_point=host)
    made.run_until(made.all_run)
    made.send("text", b" ".join(WORDS))
    made.run(4_000)
    owners = set()
    for word in WORDS:
        requests = [
            key_owner(made.layout, thread.assignor.info, COUNTS, word)
            for thread in made.threads.values()
            if thread.assignor.info is not None
        ]
        first, second = requests
        assert first is not None
        assert first == second
        (name,) = (name for name, host in HOSTS.items() if host == first.active)
        (other,) = HOSTS.keys() - {name}
        assert first.standby == [HOSTS[other]]
        assert stored(made.threads[name], word) == b"1"
        assert stored(made.threads[other], word) is None
        owners.add(name)
    assert owners == HOSTS.keys()
    made.kill("b-1")
    made.run_until(made.all_run)
    (left,) = made.threads.values()
    assert left.assignor.info is not None
    for word in WORDS:
        owner = key_owner(made.layout, left.assignor.info, COUNTS, word)
        assert owner is not None
        assert (owner.active, owner.standby) == (HOSTS["a-1"], [])
        assert stored(left, word) == b"1"


def test_example_22_a_standby_serves_stale_reads() -> None:
    made = StreamsWorld(
        word_count("text", "counts"), {"text": 2, "counts": 1}, num_standby_replicas=1
    )
    for name, host in HOSTS.items():
        made.start(name[0], end_point=host)
    made.run_until(made.all_run)
    made.send("text", b" ".join(WORDS))
    made.run(4_000)
    info = made.threads["a-1"].assignor.info
    assert info is not None
    owners = store_owners(made.layout, info, COUNTS)
    assert [str(owner.task) for owner in owners] == ["1_0", "1_1"]
    every: list[tuple[bytes, bytes]] = []
    for owner in owners:
        (name,) = (name for name, host in HOSTS.items() if host == owner.active)
        (other,) = HOSTS.keys() - {name}
        here = made.threads[name].stores_of(owner.task, may_be_stale=False)
        assert made.threads[other].stores_of(owner.task, may_be_stale=False) is None
        copy = made.threads[other].stores_of(owner.task, may_be_stale=True)
        assert here is not None
        assert copy is not None
        assert here.by_name[COUNTS].range() == copy.by_name[COUNTS].range()
        every += here.by_name[COUNTS].range()
    assert sorted(every) == [(word, b"1") for word in sorted(WORDS)]


def test_a_range_includes_both_ends() -> None:
    store = KeyValueStore()
    for key in (b"c", b"a", b"b", b"d"):
        store.put(key, key.upper())
    assert store.range(b"b", b"c") == [(b"b", b"B"), (b"c", b"C")]
    assert [key for key, _ in store.range(b"bb")] == [b"c", b"d"]
    assert [key for key, _ in store.range(last=b"b")] == [b"a", b"b"]
    assert store.range(b"e") == []


def test_a_missing_store_has_no_owner() -> None:
    made = StreamsWorld(word_count("text", "counts"), {"text": 1, "counts": 1})
    made.start("a")
    made.run_until(made.all_run)
    info = made.threads["a-1"].assignor.info
    assert info is not None
    assert key_owner(made.layout, info, "none", b"k") is None
    owner = key_owner(made.layout, info, COUNTS, b"k")
    assert owner is not None
    assert owner.active is None
