"""Restores a thread's stores from changelogs, and maintains standby copies.

Source: `StoreChangelogReader`, `StandbyTask` in Kafka.

    restorer.begin(task, stores)     restore to the changelogs' current ends: `is_whole`
    restorer.copy({task})            maintain exactly these copies
    restorer.promote(task)           turn a copy into the stores of an active task
"""

from collections.abc import Iterable, Mapping

from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.fetching_client import ReaderClient
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import Names, TaskId
from brokertwin.clients.streams.task import TaskStores
from brokertwin.clients.streams.topology import SubTopology


class Restorer:
    """The restorer of one thread.

    Attributes:
        client: reads the changelogs.
        copies: the stores of standby tasks.
        restored: number of restored records.
    """

    def __init__(
        self,
        fetches: FetchSettings,
        draw: Draw,
        subs: Mapping[int, SubTopology],
        names: Names,
    ) -> None:
        self.client = ReaderClient(fetches, draw)
        self.copies: dict[TaskId, TaskStores] = {}
        self.restored = 0
        self._subs = subs
        self._names = names
        self._restoring: dict[TaskId, TaskStores] = {}

    def begin(self, task: TaskId, stores: TaskStores) -> None:
        """Restore an active task; a former copy continues at its position."""
        self._restoring[task] = stores
        self._read()
        self.client.request_ends(stores.changelogs)

    def is_whole(self, task: TaskId) -> bool:
        """Whether the stores have reached the ends at the start of the restore."""
        return all(
            at in self.client.ends and (self.client.position(at) or 0) >= self.client.ends[at]
            for at in self._restoring[task].changelogs
        )

    def end(self, task: TaskId) -> None:
        """Stop reading: the task runs and writes its changelogs itself."""
        self._restoring.pop(task)
        self._read()

    def forget(self, task: TaskId) -> None:
        if self._restoring.pop(task, None) is not None:
            self._read()

    def copy(self, tasks: Iterable[TaskId]) -> None:
        task_ids = set(tasks)
        if task_ids == self.copies.keys():
            return
        self.copies = {
            task: self.copies.get(task) or self._stores(task) for task in sorted(task_ids)
        }
        self._read()

    def promote(self, task: TaskId) -> TaskStores | None:
        """Return the stores of a copy that becomes active, or None."""
        stores = self.copies.pop(task, None)
        if stores is not None:
            self._restoring[task] = stores
        return stores

    def offset_sums(self) -> dict[TaskId, int]:
        """Progress of each copy: the sum of its changelog positions."""
        return {
            task: sum(self.client.position(at) or 0 for at in stores.changelogs)
            for task, stores in self.copies.items()
        }

    def work(self) -> None:
        """Apply fetched records."""
        by_changelog = self._by_changelog()
        for at, _, message in self.client.poll():
            self.restored += 1
            by_changelog[at].restore(at, message)

    def _stores(self, task: TaskId) -> TaskStores:
        return TaskStores(self._subs[task.sub_topology], self._names, task.partition)

    def _by_changelog(self) -> dict[TopicPartition, TaskStores]:
        every = [*self._restoring.values(), *self.copies.values()]
        return {at: stores for stores in every for at in stores.changelogs}

    def _read(self) -> None:
        """Read all changelogs in use; new ones from the beginning."""
        self.client.read(dict.fromkeys(self._by_changelog()))
