"""The table of error descriptions; `docs/errors` is generated from it.

rule          one error
producers     sequences, epochs, transactions, invalid batches
groups        members, generations, commits
replicas      fetch sessions, leaders, in-sync sets, elections, reassignments
topics        topics, settings, invalid requests
access        authorization and authentication
shares        share groups' fetches
tokens        delegation tokens, quotas of changes, client metrics
"""

from brokertwin.recordings.rules import (
    access,
    groups,
    producers,
    replicas,
    shares,
    tokens,
    topics,
)
from brokertwin.recordings.rules.rule import Rule

RULES: dict[int, Rule] = {
    **producers.RULES,
    **groups.RULES,
    **replicas.RULES,
    **topics.RULES,
    **access.RULES,
    **shares.RULES,
    **tokens.RULES,
}
"""Error code to its description."""

__all__ = ["RULES", "Rule"]
