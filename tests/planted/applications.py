"""Rules of Connect's workers, of Streams' threads and of an operator's work, broken on purpose."""

from tests.planted.planting import Planted

APPLICATIONS: tuple[Planted, ...] = (
    Planted(
        "worker-stops-first",
        "a worker joins when what it has to stop is stopped",
        "brokertwin.clients.connect.worker_coordinator",
        "        return not self.stopping\n",
        "        return True\n",
    ),
    Planted(
        "eager-worker-stops",
        "an eager worker stops everything before it joins",
        "brokertwin.clients.connect.worker_coordinator",
        "        if self.generation.protocol == ConnectProtocol.EAGER:\n",
        "        if self.generation.protocol == ConnectProtocol.EAGER and self.is_leader:\n",
    ),
    Planted(
        "worker-prepares-again",
        "a worker whose session ends while it joins stops before it joins again",
        "brokertwin.clients.connect.worker_coordinator",
        "            self._must_prepare = True\n",
        "",
    ),
    Planted(
        "running-is-not-dealt-out",
        "what a worker says that it runs is not given to another",
        "brokertwin.clients.connect.cooperative_assignor",
        "        created = known - self._previous - active\n",
        "        created = known - self._previous\n",
    ),
    Planted(
        "positions-in-order",
        "the position of a line is stored when all before it is acknowledged",
        "brokertwin.clients.connect.submitted_records",
        "        while self._waiting and self._waiting[0][0] in self._acked:\n",
        "        while self._waiting:\n",
    ),
    Planted(
        "generation-begins-anew",
        "exactly once, a task waits until its generation may begin",
        "brokertwin.clients.connect.herder",
        "        return is_pending and self._is_exact_source(item.connector)\n",
        "        return False\n",
    ),
    Planted(
        "lets-go-at-once",
        "of a task that was given back nothing more is worked on",
        "brokertwin.clients.streams.stream_thread",
        "        self._end_commit()\n        self._let_go()\n",
        "        self._end_commit()\n",
    ),
    Planted(
        "restores-to-end",
        "a task runs when its stores are as their changelogs were",
        "brokertwin.clients.streams.restorer",
        "at in self.client.ends and (self.client.position(at) or 0) >= self.client.ends[at]",
        "at in self.client.ends",
    ),
    Planted(
        "restores-when-stable",
        "a store is restored when the committed offsets are known",
        "brokertwin.clients.streams.stream_thread",
        "            if task.state is TaskState.CREATED and all(known):\n",
        "            if task.state is TaskState.CREATED:\n",
    ),
    Planted(
        "offsets-in-transaction",
        "a thread's offsets are in the transaction of what it has written",
        "brokertwin.clients.streams.stream_thread",
        "        transactions.send_offsets(group, self._offsets, generation)\n",
        "",
    ),
    Planted(
        "offsets-behind-records",
        "at least once, offsets are committed when all records are acknowledged",
        "brokertwin.clients.streams.stream_thread",
        "        elif self.producer.producer.is_idle:\n",
        "        else:\n",
    ),
    Planted(
        "gives-up-positions",
        "a task that is begun again reads on from what is committed",
        "brokertwin.clients.streams.stream_thread",
        "        self.consumer.subscription.forget_positions()\n",
        "        self.consumer.subscription.without_offset.clear()\n",
    ),
    Planted(
        "gives-up-stores",
        "a task that is begun again has its stores from their changelogs",
        "brokertwin.clients.streams.stream_thread",
        "        for task in self.tasks.values():\n            self.restorer.forget(task.id)\n"
        "        self.tasks.clear()\n",
        "        for task in self.tasks.values():\n            task.state = TaskState.CREATED\n",
    ),
    Planted(
        "stable-offsets",
        "who asks for stable offsets waits for the end of transactions",
        "brokertwin.state.apis.offset_fetch",
        "        if require_stable:\n",
        "        if False:\n",
    ),
    Planted(
        "offsets-of-generation",
        "a transaction commits no offset of another generation",
        "brokertwin.state.apis.txn_offset_commit",
        "        return kind_of(group).commit_error(group, commit)\n",
        "        return Error.NONE\n",
    ),
    Planted(
        "reassigned-when-in-sync",
        "a reassignment ends when those that come are in sync",
        "brokertwin.state.replication.reassignments",
        "not in_sync or not set(needed) <= set(in_sync):\n",
        "not in_sync:\n",
    ),
    Planted(
        "preferred-in-sync",
        "the preferred leader is elected where it is in sync",
        "brokertwin.state.replication.elections",
        "        if broker in may_lead and rules.may_lead(partition, broker):\n",
        (
            "        if (broker in may_lead or broker in first)"
            " and rules.may_lead(partition, broker):\n"
        ),
    ),
)
