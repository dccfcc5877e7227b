"""Fault plans: equal for a seed, valid, and shrunk to what a failure needs."""

import pytest

from brokertwin.gateway.faults.fault import Fault, FaultSpec
from brokertwin.testing.auditor.plans import (
    FAULTS_MAX,
    RETRIABLE_OF,
    faults_of,
    shrink,
    standing_faults,
)
from brokertwin.testing.auditor.workload import WorkKind


def test_a_seed_always_gives_the_same_plan() -> None:
    assert faults_of(7) == faults_of(7)
    assert len({str(faults_of(seed)) for seed in range(20)}) == 20


def test_all_plans_are_valid_and_small() -> None:
    for seed in range(300):
        faults = faults_of(seed)
        assert 1 <= len(faults) <= FAULTS_MAX
        for each in (*faults, *standing_faults(), *faults_of(seed, WorkKind)):
            Fault(each)


@pytest.mark.parametrize("work", RETRIABLE_OF)
def test_apis_of_a_kind_of_work_are_disturbed_if_the_client_does_it(work: WorkKind) -> None:
    own = RETRIABLE_OF[work].keys()
    assert own <= {each.api for seed in range(50) for each in faults_of(seed, [work])}
    assert own.isdisjoint(each.api for seed in range(300) for each in faults_of(seed))


def test_shrinking_keeps_only_the_faults_that_a_failure_needs() -> None:
    plan = [FaultSpec(effect="cut", api="FETCH", nth=number) for number in (1, 2, 3, 4)]
    assert shrink(plan, lambda some: plan[1] in some and plan[3] in some) == [plan[1], plan[3]]
    assert shrink(plan, lambda some: False) == plan
