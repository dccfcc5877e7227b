"""Rules of who may lead, broken like those of `table.py`."""

from tests.mutants.table import REASSIGNMENTS, Mutant

ELIGIBLE = "replication/test_eligible.py::"

MUTANTS = (
    Mutant(
        "a reassignment that leaves fewer replicas waits for all of them",
        "    needed = staying if len(adding) < len(removing) else adding\n",
        "    needed = adding\n",
        REASSIGNMENTS + "test_who_stays_has_to_be_in_sync_where_there_will_be_fewer",
    ),
    Mutant(
        "who has ended uncleanly is not eligible",
        "if broker not in in_sync and broker != ended]",
        "if broker not in in_sync]",
        ELIGIBLE + "test_who_was_killed_is_eligible_until_it_is_back",
    ),
    Mutant(
        "nobody is eligible where enough are in sync",
        "    if len(in_sync) >= min_in_sync:\n        return []\n",
        "",
        ELIGIBLE + "test_who_stops_is_eligible_where_too_few_are_left",
    ),
    Mutant(
        "an eligible replica leads only where nobody is in sync",
        "    may_lead = target.isr or target.elr\n",
        "    may_lead = [*target.isr, *target.elr]\n",
        ELIGIBLE + "test_who_is_in_sync_leads_before_who_is_eligible",
    ),
    Mutant(
        "who led last leads only where nobody is eligible",
        "    if in_sync or elr or len(last_known) != 1:\n",
        "    if in_sync or len(last_known) != 1:\n",
        ELIGIBLE + "test_the_last_known_leader_leads_as_soon_as_nobody_else_may",
    ),
    Mutant(
        "an election of who led last is unclean",
        "            return last, True\n",
        "            return last, False\n",
        ELIGIBLE + "test_the_last_known_leader_leads_where_nobody_is_eligible",
    ),
    Mutant(
        "an unclean election leaves nobody eligible",
        "            target.isr, target.elr = [leader], []\n",
        "            target.isr = [leader]\n",
        ELIGIBLE + "test_an_unclean_election_leaves_nobody_eligible",
    ),
    Mutant(
        "who led last is kept while nobody leads",
        "    if record.leader == NO_LEADER and had_leader and not known:\n",
        "    if record.leader == NO_LEADER and had_leader and known:\n",
        ELIGIBLE + "test_the_in_sync_set_may_be_empty_and_who_is_eligible_leads",
    ),
    Mutant(
        "another min.insync.replicas leaves nobody eligible",
        "is_named = any(each.name == MIN_IN_SYNC for each in changed)",
        "is_named = False",
        ELIGIBLE + "test_another_min_insync_replicas_leaves_nobody_eligible",
    ),
    Mutant(
        "another min.insync.replicas of the cluster leaves nobody eligible",
        "is_named = any(setting.name == MIN_IN_SYNC for setting in resource.settings)",
        "is_named = False",
        ELIGIBLE + "test_another_min_insync_replicas_of_the_cluster_leaves_nobody_eligible",
    ),
    Mutant(
        "no high watermark rises by who is eligible",
        "if record.isr is not None or record.leader is not None or record.replicas is not None:",
        "if True:",
        ELIGIBLE + "test_another_min_insync_replicas_leaves_nobody_eligible",
    ),
    Mutant(
        "a broker has ended in order in the epoch that the controller knows",
        "known.epoch == body.previous_broker_epoch",
        "body.previous_broker_epoch >= 0",
        ELIGIBLE + "test_a_registration_says_how_the_broker_has_ended",
    ),
    Mutant(
        "before version 3 nobody knows how a broker has ended",
        "known.is_registered and request.version >= 3",
        "known.is_registered",
        ELIGIBLE + "test_a_registration_says_how_the_broker_has_ended",
    ),
)
