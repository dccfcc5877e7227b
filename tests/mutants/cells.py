"""Broken rules of cells that talk to each other."""

from tests.mutants.table import Mutant

CELLS = "cell/test_between_cells.py::"
RESHARDING = "cell/test_resharding.py::"
IN_CELLS = "cell/test_brokers_in_cells.py::"

MUTANTS = (
    Mutant(
        "what an older incarnation of a cell has told is not taken",
        "return Count(settings.incarnation, 0)",
        "return Count(0, 0)",
        CELLS + "test_a_cell_that_begins_anew_counts_from_one_in_a_higher_incarnation",
    ),
    Mutant(
        "an event of another cell is taken where it is the next, and not earlier",
        "return event.incarnation >= last.incarnation and event.sequence == following",
        "return event.incarnation >= last.incarnation and event.sequence >= following",
        CELLS + "test_one_that_comes_too_early_is_a_dead_letter_and_is_taken_when_it_is_the_next",
    ),
    Mutant(
        "a follower of another cell was caught up until its leader appended",
        "replica.last_caught_up = broker.told_at",
        "pass",
        CELLS + "test_a_follower_of_another_cell_was_caught_up_until_the_leader_appended",
    ),
    Mutant(
        "a leader that has slept hears followers of other cells before it judges them",
        "deadline = (broker.told_at // interval_ms + 1) * interval_ms",
        "deadline = (broker.now // interval_ms + 1) * interval_ms",
        CELLS + "test_a_leader_whose_cell_has_slept_hears_its_followers_before_it_judges_them",
    ),
    Mutant(
        "what was due in a silent cell is told with the event that ends the silence",
        "self.told_at = event_time if settings.cells and event_time is not None else now",
        "self.told_at = now",
        CELLS + "test_what_was_due_in_a_silent_cell_is_told_with_the_event_that_ends_the_silence",
    ),
    Mutant(
        "leaders look at their followers at times that do not depend on cells",
        "deadline = (broker.told_at // interval_ms + 1) * interval_ms",
        "deadline = broker.told_at + interval_ms",
        IN_CELLS + "test_a_follower_leaves_in_the_same_second_however_many_cells_there_are",
    ),
    Mutant(
        "leaders in other cells hear of a broker that is cut off",
        "            self._outward.cut_off(broker)\n",
        "            pass\n",
        IN_CELLS + "test_a_follower_that_is_cut_off_counts_as_caught_up_until_then",
    ),
    Mutant(
        "a repeated event of another cell changes nothing",
        "return (event.incarnation, event.sequence) <= (last.incarnation, last.sequence)",
        "return (event.incarnation, event.sequence) == (last.incarnation, last.sequence)",
        CELLS + "test_a_repeat_at_any_later_point_changes_nothing",
    ),
    Mutant(
        "an event of another cell that raises does not stop those behind it",
        "            self._pass_over(event)",
        "            pass",
        CELLS + "test_one_that_raises_is_a_dead_letter_and_those_behind_it_are_taken",
    ),
    Mutant(
        "cells are cut anew only when all that they have told each other has arrived",
        'if table.get(f"told/{other}") != theirs.get(f"heard/{name}"):',
        "if False:",
        RESHARDING + "test_what_is_under_way_between_cells_must_arrive_first",
    ),
    Mutant(
        "a timer goes to the cell that holds its machine",
        'parts[{"watch": 1, "timer": 2}.get(parts[0], 0)]',
        '"1" if parts[0] == "timer" else parts[{"watch": 1}.get(parts[0], 0)]',
        RESHARDING + "test_cells_that_are_cut_anew_answer_as_before",
    ),
)
