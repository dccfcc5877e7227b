"""Fences the producers of older task generations, on the leader.

Source: KIP-618; `Worker.fenceZombies`, `Admin.fenceProducers` in Kafka. InitProducerId bumps the
epoch of each transactional id. A running task with that id can then end no transaction, and its
open transaction is aborted. Fencing has its own thread, so that the leader's heartbeats continue.
"""

import threading
from queue import Empty, SimpleQueue

from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import WorkerConfig
from brokertwin.clients.io.producer import Producer, TransactionError
from brokertwin.clients.io.sasl import SaslAuthenticationError
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.producer_config import ProducerConfig

Ended = tuple[str, int, str | None]
"""Connector, generation, and the error or None."""


class Fencing:
    def __init__(self, kafka: Kafka, config: WorkerConfig) -> None:
        self._kafka = kafka
        self._config = config
        self._ended: SimpleQueue[Ended] = SimpleQueue()

    def begin(self, connector: str, generation: int, tasks: list[ConnectTaskId]) -> None:
        args = (connector, generation, tasks)
        name = f"fencing-{connector}"
        threading.Thread(target=self._run, args=args, name=name, daemon=True).start()

    def ended(self) -> list[Ended]:
        """Return the rounds that ended since the last call."""
        result: list[Ended] = []
        while True:
            try:
                result.append(self._ended.get_nowait())
            except Empty:
                return result

    def _run(self, connector: str, generation: int, tasks: list[ConnectTaskId]) -> None:
        try:
            for task in tasks:
                self._fence(self._config.transactional_id(task))
        except (TransactionError, SaslAuthenticationError) as error:
            self._ended.put((connector, generation, str(error)))
        else:
            self._ended.put((connector, generation, None))

    def _fence(self, transactional_id: str) -> None:
        settings = ProducerConfig(transactional_id=transactional_id)
        with Producer(self._kafka, settings, client_id=f"fence-{transactional_id}") as producer:
            producer.init_transactions()
