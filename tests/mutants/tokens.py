"""Broken rules of delegation tokens."""

from tests.mutants.table import Mutant

TOKENS = "access/test_delegation_tokens.py::"

MUTANTS = (
    Mutant(
        "who has made a token for somebody else does not renew it",
        "return principal == self.owner or principal in self.renewers",
        "return principal in (self.owner, self.requester, *self.renewers)",
        TOKENS + "test_a_token_for_somebody_else_needs_a_right",
    ),
    Mutant(
        "a token is not renewed beyond its greatest age",
        "expiry = min(token.max_timestamp, controller.now + period_ms)",
        "expiry = controller.now + period_ms",
        TOKENS + "test_a_token_has_the_times_of_the_settings_and_of_the_request",
    ),
    Mutant(
        "the controller forgets expired tokens",
        "return expired in (expired_tokens, mutation_quota.expired)",
        "return False",
        TOKENS + "test_an_expired_token_is_refused_and_forgotten_by_the_next_check",
    ),
)
