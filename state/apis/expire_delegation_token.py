"""ExpireDelegationToken (key 40, versions 1 to 2): set a token's expiry.

Runs on the controller. In this order:

    the connection is not allowed          64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    no secret key                          61 DELEGATION_TOKEN_AUTH_DISABLED
    unknown token                          62 DELEGATION_TOKEN_NOT_FOUND
    neither its owner nor a renewer        63 DELEGATION_TOKEN_OWNER_MISMATCH
    a negative period                      the token is removed at once
    expired token                          66 DELEGATION_TOKEN_EXPIRED

Otherwise the token expires after the period, counted from now, but not after its maximum lifetime.
This may extend its lifetime. The gateway removes the hmac from the request; `edge.digest` is its
digest.

Sources: `KafkaApis.handleExpireTokenRequest`, `DelegationTokenControlManager` in Kafka; KIP-48.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from brokertwin.state.access.delegation_tokens import later
from brokertwin.state.apis.renew_delegation_token import requested_token
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import DelegationTokenRemoved


def handle(controller: Controller, request: Request) -> Decision:
    """Remove the token, or store its new expiry time."""
    body: ExpireDelegationTokenRequest = request.body
    token = requested_token(controller, body.edge)
    if not token.may_be_renewed_by(request.principal):
        raise Refused(Error.DELEGATION_TOKEN_OWNER_MISMATCH, expiry_timestamp_ms=0)
    if body.expiry_time_period_ms < 0:
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=controller.now)
        return Decision(records=[DelegationTokenRemoved(token.token_id)], response=response)
    if token.is_expired(controller.now):
        raise Refused(Error.DELEGATION_TOKEN_EXPIRED, expiry_timestamp_ms=0)
    expiry = min(token.max_timestamp, later(controller.now, body.expiry_time_period_ms))
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry)
    return Decision(records=[token.written(expiry)], response=response)


API = Api(kafka_apis.EXPIRE_DELEGATION_TOKEN, handle)
