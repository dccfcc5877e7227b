"""Errors of delegation tokens, of the controller's quota of changes, and of clients' metrics."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

MANAGER = "KIP-48; DelegationTokenControlManager"
ACCESS = "state/access/delegation_tokens.py"
CREATE = "state/apis/create_delegation_token.py"
RENEW = "state/apis/renew_delegation_token.py"

METRICS, PUSH = "KIP-714; ClientMetricsManager", "state/apis/push_telemetry.py"

RULES: dict[int, Rule] = {
    Error.DELEGATION_TOKEN_AUTH_DISABLED: Rule(
        "The cluster has no secret key, so it has no delegation tokens.",
        MANAGER,
        "Set delegation.token.secret.key to the same value on every broker and controller.",
        "A framework that requests tokens from a cluster without them.",
        ACCESS,
    ),
    Error.DELEGATION_TOKEN_NOT_FOUND: Rule(
        "The token does not exist, or no longer.",
        MANAGER,
        "Request a new token.",
        "A token that expired and was removed; an hmac of another cluster.",
        RENEW,
    ),
    Error.DELEGATION_TOKEN_OWNER_MISMATCH: Rule(
        "Only the owner and the renewers of a token can renew or expire it.",
        MANAGER,
        "Log in as the owner, or name the renewer when the token is created.",
        "A renewer that was not named.",
        RENEW,
    ),
    Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Rule(
        "A client without a login, or one that logged in with a delegation token, cannot get a"
        " token.",
        "KIP-48; KafkaApis.allowTokenRequests",
        "Log in with SASL or a client certificate, with the user's own credentials.",
        "A job that logged in with a token and requests another one.",
        CREATE,
    ),
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: Rule(
        "The principal is not allowed to create a token for that owner.",
        "KIP-373; KafkaApis",
        "Allow CreateTokens with `kafka-acls.sh --add --user-principal`.",
        "A service that creates tokens for its users.",
        CREATE,
    ),
    Error.DELEGATION_TOKEN_EXPIRED: Rule(
        "The token has expired.",
        MANAGER,
        "Request a new token, or renew it within delegation.token.expiry.time.ms.",
        "A job that outlives its token, without a renewer.",
        RENEW,
    ),
    Error.INVALID_PRINCIPAL_TYPE: Rule(
        "A renewer of a token must be a principal of type User.",
        MANAGER,
        "Write it as `User:name`.",
        "A renewer given as a group.",
        CREATE,
    ),
    Error.THROTTLING_QUOTA_EXCEEDED: Rule(
        "The user creates and deletes partitions faster than controller_mutation_rate allows.",
        "KIP-599; StrictControllerMutationQuota, ReplicationControlManager",
        "Clients wait for the throttle time of the response and retry.",
        "A deployment that creates many topics at once.",
        "state/apis/create_topics.py",
    ),
    Error.UNKNOWN_SUBSCRIPTION_ID: Rule(
        "The client pushes metrics with a subscription that has changed.",
        METRICS,
        "Clients request their subscriptions again.",
        "A changed client metrics resource.",
        PUSH,
    ),
    Error.TELEMETRY_TOO_LARGE: Rule(
        "The compressed metrics exceed telemetry.max.bytes.",
        METRICS,
        "Subscribe to fewer metrics, or raise telemetry.max.bytes.",
        "A subscription to all metrics of a client with many partitions.",
        PUSH,
    ),
}
