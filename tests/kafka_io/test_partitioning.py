"""Kafka's partitioner and Spark's hash."""

import itertools
from collections import Counter
from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.kafka_io.partitioning import group_keys, spark_hash
from brokertwin.state.core.murmur2 import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_matches_the_test_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_one_partition(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == partition_of(bytes(key), partitions)
    assert 0 <= partition_of(key, partitions) < partitions


def test_a_partition_is_the_hash_without_sign() -> None:
    assert partition_of(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_sparks_hash_of_an_int() -> None:
    """`SELECT hash(n)` of Spark SQL."""
    assert [spark_hash(n) for n in (0, 1, -1)] == [933211791, -559580957, -1604776387]


def tasks_of(keys: dict[str, int], tasks: int) -> dict[str, int]:
    return {name: spark_hash(key) % tasks for name, key in keys.items()}


def shares(keys: dict[str, int], tasks: int, loads: dict[str, int]) -> list[int]:
    found = [0] * tasks
    for name, task in tasks_of(keys, tasks).items():
        found[task] += loads[name]
    return sorted(found, reverse=True)


def named(loads: list[int]) -> dict[str, int]:
    return {f"c{number}": load for number, load in enumerate(loads)}


@pytest.mark.parametrize("cells", range(1, 65))
def test_cells_of_equal_load_spread_evenly_over_the_tasks(cells: int) -> None:
    for tasks, load in itertools.product((1, 2, 3, 4, 8, 12), (0, 1, 700_000)):
        loads = named([load] * cells)
        keys = group_keys(loads, tasks, loads, {})
        assert len(set(keys.values())) == cells and min(keys.values()) >= 0
        held = Counter(tasks_of(keys, tasks).values())
        assert max(held.values()) == -(-cells // tasks)
        assert keys == group_keys(loads, tasks, {}, {})


def test_without_known_loads_the_keys_are_those_of_older_checkpoints() -> None:
    names = [f"c{number}" for number in range(8)]
    assert list(group_keys(names, 2, {}, {}).values()) == [2, 0, 4, 1, 5, 3, 10, 6]
    assert list(group_keys(names, 3, {}, {}).values()) == [0, 1, 11, 2, 6, 12, 3, 13]


LOADS = st.lists(st.integers(0, 10_000), min_size=1, max_size=64).map(named)


@given(LOADS, st.integers(1, 12))
def test_no_task_is_busier_than_another_by_more_than_its_lightest_cell(
    loads: dict[str, int], tasks: int
) -> None:
    keys = group_keys(loads, tasks, loads, {})
    held: list[list[int]] = [[] for _ in range(tasks)]
    for name, task in tasks_of(keys, tasks).items():
        held[task].append(loads[name])
    least = min(map(sum, held))
    assert all(sum(each) - min(each) <= least for each in held if each)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6).map(named), st.integers(1, 3))
def test_the_busiest_task_has_four_thirds_of_the_best_at_most(
    loads: dict[str, int], tasks: int
) -> None:
    every = itertools.product(range(tasks), repeat=len(loads))
    best = min(
        max(sum(compress(loads.values(), (at == task for at in way))) for task in range(tasks))
        for way in every
    )
    assert shares(group_keys(loads, tasks, loads, {}), tasks, loads)[0] * 3 <= best * 4


@given(st.lists(st.integers(0, 100), min_size=1, max_size=63), st.integers(2, 12))
def test_a_cell_above_the_mean_load_has_its_own_task(others: list[int], tasks: int) -> None:
    loads = named([*others, sum(others) // (tasks - 1) + 1])
    placed = tasks_of(group_keys(loads, tasks, loads, {}), tasks)
    hot = f"c{len(others)}"
    assert [name for name, task in placed.items() if task == placed[hot]] == [hot]


@given(LOADS, LOADS, st.integers(1, 8))
def test_cells_with_a_key_keep_it_and_new_ones_go_to_the_least_loaded_task(
    old: dict[str, int], new: dict[str, int], tasks: int
) -> None:
    fixed = {name: 3 * number for number, name in enumerate(old)}
    added = {f"new {name}": load for name, load in new.items()}
    before = shares(fixed, tasks, old)
    keys = group_keys(added, tasks, old | added, fixed)
    assert {name: keys[name] for name in old} == fixed
    assert len(set(keys.values())) == len(old) + len(added)
    after = shares(keys, tasks, old | added)
    assert after[0] <= max(before[0], sum(after) // tasks + max(added.values()))


def test_a_cell_of_unknown_load_counts_as_the_mean_of_the_others() -> None:
    loads = {"heavy": 90, "light": 10}
    placed = tasks_of(group_keys(["heavy", "light", "x", "y"], 2, loads, {}), 2)
    assert placed["heavy"] == placed["light"] != placed["x"] == placed["y"]
