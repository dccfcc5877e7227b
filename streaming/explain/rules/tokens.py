"""Errors of delegation tokens, of the controller's quota of changes, and of clients' metrics."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

MANAGER = "KIP-48; DelegationTokenControlManager"
ACCESS = "state/access/delegation_tokens.py"
CREATE = "state/apis/create_delegation_token.py"
RENEW = "state/apis/renew_delegation_token.py"

METRICS, PUSH = "KIP-714; ClientMetricsManager", "state/apis/push_telemetry.py"

RULES: dict[int, Rule] = {
    Error.DELEGATION_TOKEN_AUTH_DISABLED: Rule(
        "The cluster has no secret key, and therefore no delegation tokens.",
        MANAGER,
        "Set delegation.token.secret.key, the same on every broker and controller.",
        "A framework that asks for tokens at a cluster that was not set up for them.",
        ACCESS,
    ),
    Error.DELEGATION_TOKEN_NOT_FOUND: Rule(
        "There is no such token, or no longer.",
        MANAGER,
        "Ask for another one.",
        "A token that expired and was removed; an hmac of another cluster.",
        RENEW,
    ),
    Error.DELEGATION_TOKEN_OWNER_MISMATCH: Rule(
        "Only a token's owner and its renewers may renew it or let it expire.",
        MANAGER,
        "Log in as the owner, or name the renewer when the token is made.",
        "A renewer that was not named.",
        RENEW,
    ),
    Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Rule(
        "Who came without a login, or with a delegation token, gets none.",
        "KIP-48; KafkaApis.allowTokenRequests",
        "Log in by SASL or by a client's certificate, with the user's own credentials.",
        "A job that logged in with a token and asks for another one.",
        CREATE,
    ),
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: Rule(
        "The principal may not make a token for that owner.",
        "KIP-373; KafkaApis",
        "Allow it: `kafka-acls.sh --add --user-principal`, with CreateTokens.",
        "A service that makes tokens in the name of its users.",
        CREATE,
    ),
    Error.DELEGATION_TOKEN_EXPIRED: Rule(
        "The token's time is over.",
        MANAGER,
        "Ask for another one; renew it earlier, within delegation.token.expiry.time.ms.",
        "A job that runs for longer than its token, without a renewer.",
        RENEW,
    ),
    Error.INVALID_PRINCIPAL_TYPE: Rule(
        "A renewer of a token is a principal of the type User.",
        MANAGER,
        "Write it as `User:name`.",
        "A renewer that is named by its group.",
        CREATE,
    ),
    Error.THROTTLING_QUOTA_EXCEEDED: Rule(
        "The user creates and deletes partitions faster than controller_mutation_rate allows.",
        "KIP-599; StrictControllerMutationQuota, ReplicationControlManager",
        "Clients wait for the throttle time of the answer and try again by themselves.",
        "A deployment that creates many topics at once.",
        "state/apis/create_topics.py",
    ),
    Error.UNKNOWN_SUBSCRIPTION_ID: Rule(
        "The client pushes metrics by subscriptions that have changed meanwhile.",
        METRICS,
        "Clients ask for their subscriptions again by themselves.",
        "Somebody altered a client metrics resource.",
        PUSH,
    ),
    Error.TELEMETRY_TOO_LARGE: Rule(
        "A push of metrics is larger than telemetry.max.bytes, compressed as it came.",
        METRICS,
        "Subscribe to fewer metrics, or raise telemetry.max.bytes.",
        "A subscription to all metrics of a client with many partitions.",
        PUSH,
    ),
}
