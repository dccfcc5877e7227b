"""Runs with an application (Connect or Streams), and their expected output.

Each input must be in the output: once if the application is exactly-once, for read_committed
readers; at least once otherwise.
"""

from collections import Counter

from brokertwin.clients.streams.layout import layout
from brokertwin.simulation.audit_work import at_least_once, in_steps, once
from brokertwin.simulation.clock import START_MS
from brokertwin.simulation.closing import FinalLogs
from brokertwin.simulation.connecting import COPY
from brokertwin.simulation.contents import Contents
from brokertwin.simulation.files import Files
from brokertwin.simulation.plan import CONFIGS, EXACT, LINES, OFFSETS, TALLIES, WORKERS, RunPlan
from brokertwin.simulation.streaming import APPLICATION, tallying


def internal_topics(plan: RunPlan) -> dict[str, int]:
    """Return partition counts of an application's internal topics, by name."""
    if plan.application is None:
        return {}
    if plan.application in WORKERS:
        return {CONFIGS: 1, OFFSETS: 1}
    found = layout(APPLICATION, tallying(), dict.fromkeys(plan.topics, plan.partitions))
    return {each.name: each.partitions for each in found.internal_topics.values()}


class ApplicationEffects:
    """Expected output of an application."""

    def __init__(self, plan: RunPlan, contents: Contents, files: Files) -> None:
        self._plan = plan
        self._contents = contents
        self._files = files
        self._hold = once if plan.application in EXACT else at_least_once

    def wrong(self, logs: FinalLogs) -> list[str]:
        """Return descriptions of missing or duplicate output."""
        orders = [
            name for at, log in logs.committed.items() if at.topic == "orders" for _, name in log
        ]
        if self._plan.application is None:
            return []
        if self._plan.application in WORKERS:
            return self._of_workers(logs, orders)
        return self._of_threads(logs, orders)

    def _of_workers(self, logs: FinalLogs, orders: list[str]) -> list[str]:
        lines = self._files.read(START_MS + self._plan.active_ms, 0, self._plan.active_ms)
        wanted = [line.text.decode() for line in lines]
        found = Counter(value for _, _, value in self._values(logs, LINES))
        copied = Counter(self._files.written[COPY])
        return [
            *self._hold("the source's lines are in the topic", wanted, found),
            *at_least_once("orders are in the sink's file", orders, copied),
        ]

    def _of_threads(self, logs: FinalLogs, orders: list[str]) -> list[str]:
        found = [
            (f"{partition} {key}", *value.split(":", 1))
            for partition, key, value in self._values(logs, TALLIES)
        ]
        wrong = self._hold("orders are counted", orders, Counter(name for _, _, name in found))
        if self._plan.application in EXACT:
            wrong += in_steps("tallies", [(key, int(count)) for key, count, _ in found])
        return wrong

    def _values(self, logs: FinalLogs, topic: str) -> list[tuple[int, str, str]]:
        """Return partition, key and value of the committed records of a topic."""
        read = [
            (at.partition, self._contents.read(name))
            for at, log in logs.committed.items()
            if at.topic == topic
            for _, name in log
        ]
        return [(at, (m.key or b"").decode(), (m.value or b"").decode()) for at, m in read]
