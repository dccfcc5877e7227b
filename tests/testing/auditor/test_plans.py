"""Fault plans: equal for a seed, valid, and shrunk to what a failure needs."""

from brokertwin.gateway.faults.fault import Fault, FaultSpec
from brokertwin.testing.auditor.plans import FAULTS_MAX, faults_of, shrink, standing_faults


def test_a_seed_always_gives_the_same_plan() -> None:
    assert faults_of(7) == faults_of(7)
    assert len({str(faults_of(seed)) for seed in range(20)}) == 20


def test_all_plans_are_valid_and_small() -> None:
    for seed in range(300):
        faults = faults_of(seed)
        assert 1 <= len(faults) <= FAULTS_MAX
        for each in (*faults, *standing_faults(), *faults_of(seed, has_offsets=True)):
            Fault(each)


def test_offsets_in_transactions_are_disturbed_if_the_client_commits_them() -> None:
    apis = {each.api for seed in range(50) for each in faults_of(seed, has_offsets=True)}
    assert {"ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT"} <= apis
    assert "TXN_OFFSET_COMMIT" not in {e.api for seed in range(300) for e in faults_of(seed)}


def test_shrinking_keeps_only_the_faults_that_a_failure_needs() -> None:
    plan = [FaultSpec(effect="cut", api="FETCH", nth=number) for number in (1, 2, 3, 4)]
    assert shrink(plan, lambda some: plan[1] in some and plan[3] in some) == [plan[1], plan[3]]
    assert shrink(plan, lambda some: False) == plan
