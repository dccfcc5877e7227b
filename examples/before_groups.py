#!/usr/bin/env python
"""Consumers of Kafka 0.8, each for itself through ZooKeeper.

They start one after another, every four seconds. Nothing but this process runs: ZooKeeper and the
network are models, and seconds take no time. For example, three consumers of two threads each, of
which one stops and one pauses for twelve seconds:

    python examples/before_groups.py --partitions 6 --threads 2 --stop b --pause a
"""

import argparse

from brokertwin.simulation.zookeeper import Zoo

JOIN_MS, PAUSE_MS = 4_000, 12_000


def arguments() -> argparse.Namespace:
    """Parse the arguments; without any, consumer a pauses."""
    parser = argparse.ArgumentParser(description="Consumers of Kafka 0.8 on a model of ZooKeeper.")
    parser.add_argument("--partitions", type=int, default=4, help="partitions of the topic orders")
    parser.add_argument("--consumers", type=int, default=3, choices=range(1, 27), metavar="N")
    parser.add_argument("--threads", type=int, default=1, help="threads of each consumer")
    parser.add_argument("--stop", default="", metavar="NAME", help="this consumer closes")
    parser.add_argument("--pause", default="a", metavar="NAME", help="this one pauses")
    parser.add_argument("--seed", type=int, default=0, help="of the delays")
    return parser.parse_args()


def main() -> None:
    """Run the consumers and print who read what."""
    given = arguments()
    zoo = Zoo(given.seed, orders=given.partitions)
    for name in (chr(ord("a") + number) for number in range(given.consumers)):
        zoo.consumer(name, orders=given.threads)
        zoo.run(JOIN_MS)
        print(f"{name} has come: {zoo.handled.total()} operations of ZooKeeper so far")
    if given.stop in zoo.consumers:
        zoo.leave(given.stop)
        zoo.run(JOIN_MS)
    if given.pause in zoo.consumers:
        zoo.paused.add(given.pause)  # a long garbage collection, for example
        zoo.run(PAUSE_MS)
        zoo.paused.clear()
    zoo.run(JOIN_MS)
    print(*zoo.timeline.picture(zoo.now), sep="\n")
    for partition, owner in sorted(zoo.owners().items()):
        print(f"{partition} is owned by thread {owner}")
    twice = sorted({first.item for first, _ in zoo.timeline.twice()})
    print("read by two at once:", ", ".join(twice) or "none")


if __name__ == "__main__":
    main()
