"""CreateDelegationToken (key 38, versions 1 to 3): create a token.

The owner is the requester or another user. Runs on the controller. The errors, in this order:

    an owner name without a type                      -1 UNKNOWN_SERVER_ERROR, with the requester
                                                      as the owner
    a connection by PLAINTEXT, by TLS without a       64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    certificate, or authenticated by a token
    another owner, and no CREATE_TOKENS on that user  65 DELEGATION_TOKEN_AUTHORIZATION_FAILED
    a renewer that is not a `User`                    67 INVALID_PRINCIPAL_TYPE
    no `delegation.token.secret.key`                  61 DELEGATION_TOKEN_AUTH_DISABLED

The gateway generates the token's id and adds the hmac to the response
(`state/access/delegation_tokens.py`).

Sources: `KafkaApis.handleCreateTokenRequest`, `DelegationTokenControlManager` in Kafka; KIP-48,
KIP-373; responses of 4.3.1.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from brokertwin.state.access import delegation_tokens
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.access.delegation_tokens import NO_TIME, USER_TYPE, later
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import DelegationTokenWritten


def handle(controller: Controller, request: Request) -> Decision:
    """Create the token, or return the first error."""
    body: CreateDelegationTokenRequest = request.body
    requester = owner = request.principal
    if body.owner_principal_name:
        if body.owner_principal_type is None:
            return Decision(response=_response(owner, requester, Error.UNKNOWN_SERVER_ERROR))
        owner = delegation_tokens.principal(body.owner_principal_type, body.owner_principal_name)
    refused = _refused(controller, request, owner)
    if refused is not Error.NONE:
        return Decision(response=_response(owner, requester, refused))
    if not body.edge.is_enabled:
        response = _response(owner, requester, Error.DELEGATION_TOKEN_AUTH_DISABLED)
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = 0
        return Decision(response=response)
    settings = controller.settings
    lifetime_ms = settings.delegation_token_max_lifetime_ms
    if body.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, body.max_lifetime_ms)
    last = later(controller.now, lifetime_ms)
    token = DelegationTokenWritten(
        token_id=body.edge.token_id,
        digest=body.edge.digest,
        owner=owner,
        requester=requester,
        renewers=[
            delegation_tokens.principal(each.principal_type, each.principal_name)
            for each in body.renewers
        ],
        issue_timestamp=controller.now,
        max_timestamp=last,
        expiry_timestamp=min(last, later(controller.now, settings.delegation_token_expiry_time_ms)),
    )
    response = _response(owner, requester, Error.NONE)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiry_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id = token.token_id
    return Decision(records=[token], response=response)


def _refused(controller: Controller, request: Request, owner: str) -> Error:
    body: CreateDelegationTokenRequest = request.body
    if not body.edge.is_allowed:
        return Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != request.principal and not controller.allows(
        request, Operation.CREATE_TOKENS, ResourceType.USER, owner
    ):
        return Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(each.principal_type != USER_TYPE for each in body.renewers):
        return Error.INVALID_PRINCIPAL_TYPE
    return Error.NONE


def _response(owner: str, requester: str, error: Error) -> CreateDelegationTokenResponse:
    owner_type, owner_name = delegation_tokens.parts(owner)
    requester_type, requester_name = delegation_tokens.parts(requester)
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


API = Api(kafka_apis.CREATE_DELEGATION_TOKEN, handle)
