#!/usr/bin/env python
"""Consumers of Kafka 0.8, each for itself through ZooKeeper, and one that pauses.

Nothing but this process runs: ZooKeeper and the network are models, and seconds take no time.
"""

from brokertwin.simulation.zookeeper import Zoo

zoo = Zoo(orders=4)
for name in ("a", "b", "c"):
    zoo.consumer(name, orders=1)
    zoo.run(4_000)
    print(f"{name} has come: {zoo.handled.total()} operations of ZooKeeper so far")

zoo.paused.add("a")  # a long garbage collection, say
zoo.run(12_000)
zoo.paused.clear()
zoo.run(3_000)
print(*zoo.timeline.picture(zoo.now), sep="\n")
twice = sorted({first.item for first, _ in zoo.timeline.twice()})
print("read by two at once:", ", ".join(twice))
