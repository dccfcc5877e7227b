"""Rules of subscriptions by regular expression, broken."""

from tests.mutants.table import Mutant

REGEX = "groups/test_regex_subscriptions.py::"

MUTANTS = (
    Mutant(
        "expressions are resolved at most every ten seconds",
        "    if broker.now <= last + REFRESH_MIN_INTERVAL_MS:\n        return False\n",
        "",
        REGEX + "test_expressions_are_resolved_at_most_every_ten_seconds",
    ),
    Mutant(
        "topics that come are found",
        "version < broker.topics_created() or ",
        "",
        REGEX + "test_a_topic_that_comes_is_found",
    ),
    Mutant(
        "expressions are resolved again after the interval of the settings",
        " or broker.now > last + interval",
        "",
        REGEX + "test_the_interval_of_the_settings_resolves_again",
    ),
    Mutant(
        "what a member may not describe is not found",
        "sorted(set(names) - hidden)",
        "sorted(set(names))",
        REGEX + "test_only_topics_that_the_member_may_describe_are_found",
    ),
    Mutant(
        "the topics of an expression go with its last member",
        "        regexes = regex_resolution.last_of_its_regex(self.group, members)\n",
        "        regexes: list[str] = []\n",
        REGEX + "test_who_has_the_last_of_an_expression_takes_it_along",
    ),
    Mutant(
        "a new expression begins one epoch, once it is resolved",
        " or not regex_resolution.is_complete(group)",
        "",
        REGEX + "test_a_new_expression_in_the_place_of_another_waits_for_its_topics",
    ),
    Mutant(
        "a static member's place is not taken with an expression that is none",
        "        refused = self._invalid_regex(said)\n        if refused is not None:\n"
        "            return refused\n",
        "",
        REGEX + "test_what_is_invalid_changes_nothing",
    ),
)
