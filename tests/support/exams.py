"""Exams of running brokers in tests."""

from collections.abc import Callable

from brokertwin.clients.io.blocking import BlockingConnection
from brokertwin.gateway.edge_fields import Address
from brokertwin.testing.exam.bodies import CLIENT_ID
from brokertwin.testing.exam.examination import ExamOptions, examine
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.player import POLL_S, Ended, Player
from brokertwin.testing.exam.site import look
from brokertwin.testing.exam.verdicts import Outcome, Result
from tests.support.stepped_clock import SkippingClock

PATIENCE = 5.0
OF_A_JOB = (
    *("configs_set_and_delete", "grp_member_id_required", "fetch_session_close"),
    *("idem_sequence_gap", "pipelined_in_order", "describe_cluster", "off_simple_commit"),
    *("share_leave", "streams_leave", "txn_commit", "tv2_end_bumps_epoch"),
    *("size_record_at_limit", "tags_Produce"),
)
"""Scenarios for a Spark job, of which each request takes about a micro-batch."""

SKIPPED_S = 0.002
"""Duration of a wait that the broker's clock skips."""


class SkippingPlayer(Player):
    """Plays a scenario; waits are skipped by `clock`, which is the broker's."""

    clock: SkippingClock | None = None

    def _wait(self, seconds: float) -> None:
        if self.clock is None:
            super()._wait(seconds)
            return
        self.clock.skipped_ms += int(seconds * 1000)
        self._deadline -= seconds
        super()._wait(SKIPPED_S)


class PatientPlayer(SkippingPlayer):
    """Also skips the time that a request is pending in the broker."""

    def run(self) -> Ended | None:
        """Run all steps; return why the scenario ended early."""
        home = self._site.brokers[self._site.home]
        if self.clock is not None:
            self._world.time += self.clock.skipped_ms
        self._other = BlockingConnection(home, lambda: self._deadline, CLIENT_ID)
        try:
            return super().run()
        finally:
            self._other.close()
            self.close()

    def _connected(self, address: Address, client: str) -> BlockingConnection:
        connection = _PatientConnection(address, lambda: self._deadline, client=client)
        connection.skip = self._skip
        return connection

    def _skip(self, is_silent: Callable[[], bool]) -> None:
        """Skip time if the broker has handled what it received, and is silent."""
        for _ in range(2):
            self._other.call("Metadata", 12, {"topics": []})
        if is_silent():
            self._wait(POLL_S)


class _PatientConnection(BlockingConnection):
    skip: Callable[[Callable[[], bool]], None]

    def receive_frame(self) -> bytes:
        while self.is_silent(1):
            self.skip(lambda: self.is_silent(0))
        return super().receive_frame()


def examined(
    address: Address, *names: str, patience: float = PATIENCE, jobs: int = 4
) -> list[Result]:
    """Examine a broker; `names` as for `selected`."""
    settings = {name for _, scenario in selected(names) for name in scenario.described_settings}
    options = ExamOptions(jobs=jobs, patience=patience)
    return examine(list(selected(names)), look(address, settings, patience), options)


def deviating(results: list[Result]) -> dict[str, list[str]]:
    """Return the deviations by scenario."""
    return {
        each.scenario: [f"{d.step}: {d.path}: {d.expected} {d.got}"[:200] for d in each.deviations]
        for each in results
        if each.outcome is Outcome.DEVIATES
    }
