"""The one table of what errors mean; `docs/errors` is made of it.

rule          one error
producers     sequences, epochs, transactions, and what is wrong with a batch
groups        members, generations, commits
replicas      fetch sessions, leaders, in-sync sets, elections, reassignments
topics        topics, settings, requests that make no sense
access        who may do what
shares        share groups' fetches
tokens        delegation tokens, changes that come too fast, metrics of clients
"""

from brokertwin.streaming.explain.rules import (
    access,
    groups,
    producers,
    replicas,
    shares,
    tokens,
    topics,
)
from brokertwin.streaming.explain.rules.rule import Rule

RULES: dict[int, Rule] = {
    **producers.RULES,
    **groups.RULES,
    **replicas.RULES,
    **topics.RULES,
    **access.RULES,
    **shares.RULES,
    **tokens.RULES,
}
"""Error code to what it means."""

__all__ = ["RULES", "Rule"]
