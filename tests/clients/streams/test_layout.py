"""From topologies and topics to sub-topologies, tasks and internal topics."""

import pytest

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.applications import table_join, word_count
from brokertwin.clients.streams.layout import TaskId, layout, source_topics
from brokertwin.clients.streams.topology import Topology, TopologyError
from tests.support.topologies import as_it_is, copying


def at(*places: str) -> list[TopicPartition]:
    found = [place.rpartition("-") for place in places]
    return [TopicPartition(topic, int(partition)) for topic, _, partition in found]


def test_example_1_six_partitions_are_six_tasks() -> None:
    made = layout("app", copying("t"), {"t": 6})
    assert [str(task) for task in made.tasks] == ["0_0", "0_1", "0_2", "0_3", "0_4", "0_5"]
    assert made.tasks[TaskId(0, 4)] == at("t-4")
    assert (made.internal_topics, made.stateful()) == ({}, set())


def test_example_2_a_task_reads_its_partition_of_each_topic() -> None:
    made = layout("app", copying("t1", "t2"), {"t1": 2, "t2": 2})
    assert made.tasks == {TaskId(0, 0): at("t1-0", "t2-0"), TaskId(0, 1): at("t1-1", "t2-1")}


def test_example_3_task_count_is_the_largest_partition_count() -> None:
    """Example 22 of groups and offsets, its last part."""
    made = layout("app", copying("t1", "t2"), {"t1": 4, "t2": 2})
    assert list(made.tasks.values()) == [
        at("t1-0", "t2-0"),
        at("t1-1", "t2-1"),
        at("t1-2"),
        at("t1-3"),
    ]


def test_example_4_words_go_through_a_repartition_topic_into_a_second_sub_topology() -> None:
    topology = word_count("text", "out")
    first, second = topology.sub_topologies()
    assert (list(first.nodes), list(second.nodes)) == (
        ["lines", "split", "words-sink"],
        ["words", "count", "word-counts"],
    )
    made = layout("wc", topology, {"text": 3})
    assert {str(task): where for task, where in made.tasks.items()} == {
        **{f"0_{p}": at(f"text-{p}") for p in range(3)},
        **{f"1_{p}": at(f"wc-words-repartition-{p}") for p in range(3)},
    }
    topics = {name: topic.partitions for name, topic in made.internal_topics.items()}
    assert topics == {"wc-words-repartition": 3, "wc-counts-changelog": 3}
    assert made.internal_topics["wc-counts-changelog"].settings == {"cleanup.policy": "compact"}
    assert source_topics("wc", topology) == ({"text"}, {"wc-words-repartition"})


def test_example_5_joined_topics_need_equal_partition_counts() -> None:
    made = layout("app", table_join("l", "r", "out"), {"l": 4, "r": 4})
    assert [len(where) for where in made.tasks.values()] == [2, 2, 2, 2]
    with pytest.raises(TopologyError, match="same number of partitions: l has 4, r has 2"):
        layout("app", table_join("l", "r", "out"), {"l": 4, "r": 2})


def joined_with_repartitioned() -> Topology:
    """A table joined with records from a repartition topic."""
    topology = Topology()
    topology.add_source("big", ["big"])
    topology.add_repartition("by-key", ["big"])
    topology.add_source("table", ["table"])
    topology.add_processor("a", as_it_is, ["by-key"])
    topology.add_processor("b", as_it_is, ["table"])
    topology.add_store("both", ["a", "b"])
    return topology


def test_a_joined_repartition_topic_copies_the_partition_count() -> None:
    made = layout("app", joined_with_repartitioned(), {"big": 9, "table": 2})
    assert made.internal_topics["app-by-key-repartition"].partitions == 2
    assert sum(task.sub_topology == 0 for task in made.tasks) == 9


def test_topology_errors_are_reported() -> None:
    with pytest.raises(TopologyError, match="topic t does not exist: create it first"):
        layout("app", copying("t"), {"t": 0})
    there = {"text": 3, "wc-words-repartition": 2}
    with pytest.raises(TopologyError, match="repartition has 2 partitions and must have 3"):
        layout("wc", word_count("text", "out"), there)
    there = {"text": 3, "wc-counts-changelog": 1}
    with pytest.raises(TopologyError, match="changelog has 1 partitions and must have 3"):
        layout("wc", word_count("text", "out"), there)
    with pytest.raises(TopologyError, match="has no source"):
        Topology().sub_topologies()


def test_processors_need_existing_parents() -> None:
    topology = copying("t")
    for message, wrong in (
        ("no known parent: add nowhere first", lambda: topology.add_sink("s", "x", ["nowhere"])),
        ("no known parent: add one first", lambda: topology.add_sink("s", "x", [])),
        ("has the sink out as a parent", lambda: topology.add_sink("s", "x", ["out"])),
        ("node copy already exists", lambda: topology.add_sink("copy", "x", ["in"])),
        ("is read by source in", lambda: topology.add_source("again", ["t"])),
        ("names no topic", lambda: topology.add_source("again", [])),
        ("needs processors; in is not one", lambda: topology.add_store("s", ["in"])),
    ):
        with pytest.raises(TopologyError, match=message):
            wrong()
    topology.add_store("s", ["copy"])
    with pytest.raises(TopologyError, match="store s already exists"):
        topology.add_store("s", ["copy"])


def test_nodes_that_share_a_store_are_one_sub_topology() -> None:
    topology = copying("t")
    topology.add_source("other", ["u"])
    topology.add_processor("look", as_it_is, ["other"])
    assert len(topology.sub_topologies()) == 2
    topology.add_store("seen", ["copy", "look"])
    assert len(topology.sub_topologies()) == 1
