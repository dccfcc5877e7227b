"""Broken rules of brokers' settings that change while they run, and of throttles."""

from tests.mutants.table import Mutant

SETTINGS = "configs/test_brokers_settings.py::"

MUTANTS = (
    Mutant(
        "a broker's own setting comes before that of all brokers",
        "    for name, text in (*of_cluster.items(), *of_broker.items()):\n",
        "    for name, text in (*of_broker.items(), *of_cluster.items()):\n",
        SETTINGS + "test_a_setting_of_all_brokers_holds_where_a_broker_has_none_of_its_own",
    ),
    Mutant(
        "what changes while a broker runs holds at once",
        "    table.derived.pop(_DERIVED, None)\n",
        "    pass\n",
        SETTINGS + "test_an_altered_setting_of_a_broker_holds_at_once",
    ),
    Mutant(
        "secrets of brokers are not kept",
        'hidden = {name: "" for name in after',
        "hidden = {name: after[name] for name in after",
        SETTINGS + "test_secrets_are_neither_kept_nor_shown",
    ),
    Mutant(
        "who may not alter the cluster alters no broker",
        "if not controller.allows_cluster(request, Operation.ALTER_CONFIGS):",
        "if controller.allows_cluster(request, Operation.ALTER_CONFIGS) is None:",
        SETTINGS + "test_the_brokers_own_checks_come_before_authorization",
    ),
    Mutant(
        "settings of ours need a restart",
        "name in SETTINGS and not _may_change(name)",
        "name in KAFKA_SETTINGS and not _may_change(name)",
        SETTINGS + "test_our_own_settings_do_not_change",
    ),
)
