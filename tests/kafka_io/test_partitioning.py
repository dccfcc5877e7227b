"""Kafka's partitioner and Spark's hash, computed here as they compute them."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerstream.kafka_io.partitioning import group_keys, spark_hash
from brokerstream.state.core.murmur2 import murmur2, partition_of


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
def test_murmur2_gives_what_kafkas_own_test_expects(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_one_partition(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == partition_of(bytes(key), partitions)
    assert 0 <= partition_of(key, partitions) < partitions


def test_a_partition_is_the_hash_without_its_sign() -> None:
    assert partition_of(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_sparks_hash_of_an_int() -> None:
    """`SELECT hash(n)` of Spark SQL."""
    assert [spark_hash(n) for n in (0, 1, -1)] == [933211791, -559580957, -1604776387]


@given(st.integers(1, 12), st.integers(1, 60))
def test_cells_spread_evenly_over_the_shuffle_partitions(partitions: int, cells: int) -> None:
    keys = list(islice(group_keys(partitions), cells))
    assert len(set(keys)) == cells
    assert min(keys) >= 0
    placed = [spark_hash(key) % partitions for key in keys]
    assert placed == [number % partitions for number in range(cells)]


@given(st.integers(1, 8), st.integers(1, 20), st.integers(1, 20))
def test_more_cells_leave_the_keys_of_the_others(partitions: int, few: int, more: int) -> None:
    before = list(islice(group_keys(partitions), few))
    assert list(islice(group_keys(partitions), few + more))[:few] == before
