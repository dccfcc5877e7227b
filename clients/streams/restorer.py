"""Fills a thread's stores from their changelogs: of active tasks before they run, of copies always.

Source: `StoreChangelogReader`, `StandbyTask` in Kafka.

    restorer.begin(task, stores)     up to the changelogs' ends as of now: `is_whole`
    restorer.copy({task})            exactly these copies, which follow their changelogs
    restorer.promote(task)           a copy's stores, which go on from where they are
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
    """One thread's.

    Attributes:
        client: what reads the changelogs.
        copies: the stores of the tasks that are copied.
        restored: records that it has put into stores.
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
        """Restores an active task's stores, those of a former copy from where they are."""
        self._restoring[task] = stores
        self._read()
        self.client.ask_ends(stores.changelogs)

    def is_whole(self, task: TaskId) -> bool:
        """Whether its stores are as their changelogs were when it began."""
        return all(
            at in self.client.ends and (self.client.position(at) or 0) >= self.client.ends[at]
            for at in self._restoring[task].changelogs
        )

    def end(self, task: TaskId) -> None:
        """It runs: what it writes to its changelogs it has already."""
        self._restoring.pop(task)
        self._read()

    def forget(self, task: TaskId) -> None:
        """An active task is given up."""
        if self._restoring.pop(task, None) is not None:
            self._read()

    def copy(self, tasks: Iterable[TaskId]) -> None:
        """Has copies of the stores of these tasks and of no others."""
        wanted = set(tasks)
        if wanted == self.copies.keys():
            return
        self.copies = {task: self.copies.get(task) or self._stores(task) for task in sorted(wanted)}
        self._read()

    def promote(self, task: TaskId) -> TaskStores | None:
        """The stores of a copy that becomes active, and is followed on; None without one."""
        stores = self.copies.pop(task, None)
        if stores is not None:
            self._restoring[task] = stores
        return stores

    def offset_sums(self) -> dict[TaskId, int]:
        """How far each copy is: the sum of its changelogs' offsets."""
        return {
            task: sum(self.client.position(at) or 0 for at in stores.changelogs)
            for task, stores in self.copies.items()
        }

    def work(self) -> None:
        """Puts what has come into the stores."""
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
        """Reads the changelogs of all that is restored or copied: new ones from the beginning."""
        self.client.read(dict.fromkeys(self._by_changelog()))
