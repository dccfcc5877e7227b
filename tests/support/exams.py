"""Exams of running brokers in tests."""

from brokertwin.gateway.edge_fields import Address
from brokertwin.testing.exam.examination import ExamOptions, examine
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.site import look
from brokertwin.testing.exam.verdicts import Outcome, Result

PATIENCE = 5.0


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
