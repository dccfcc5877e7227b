"""Rules of `clients/` for consumers, broken like those of `table.py`."""

from tests.mutants.table import Mutant

EXAMPLES = "assignors/test_examples.py::"
JAVA = "assignors/test_java_assignors.py::test_what_java_assigned_is_assigned"
PROPERTIES = "assignors/test_assignor_properties.py::"


def _of_clients(rule: str, old: str, new: str, caught_by: str) -> Mutant:
    return Mutant(rule, old, new, caught_by, "clients")


MUTANTS = (
    _of_clients(
        "range: the first members have one more",
        "first + quota + (at < extra)]",
        "first + quota + (at <= extra)]",
        PROPERTIES + "test_each_partition_is_given_once_to_one_who_wants_it",
    ),
    _of_clients(
        "cooperative-sticky takes out what has to be given back first",
        "        assignment[member].remove(partition)\n    return assignment\n",
        "        pass\n    return assignment\n",
        EXAMPLES + "test_example_7_cooperative_gives_a_new_member_its_share_in_two_rebalances",
    ),
    _of_clients(
        "of two claims that of the later generation counts",
        "if other is None or generation > others:",
        "if other is None:",
        EXAMPLES + "test_example_8_of_two_claims_the_later_generation_counts",
    ),
    _of_clients(
        "sticky: no more members are over their quota than have to be",
        "has_room = self._over < self._over_max",
        "has_room = self._over <= self._over_max",
        JAVA,
    ),
    _of_clients(
        "sticky: a partition goes back to who had it before",
        "if previous is not None and may_go_back and size",
        "if previous is None and may_go_back and size",
        JAVA,
    ),
    _of_clients(
        "sticky: another partition of the topic goes back first",
        "return next(iter(self._moved.get((partition.topic, way), ())), partition)",
        "return partition",
        JAVA,
    ),
)
