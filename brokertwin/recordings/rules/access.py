"""Errors of authorization and authentication."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

WHO = (
    "A new or renamed principal; a client without credentials, which is User:ANONYMOUS; an ACL for"
    " another host."
)
SOURCE = "KIP-11; KafkaApis, ControllerApis, AuthHelper.authorize, StandardAuthorizer"

RULES: dict[int, Rule] = {
    Error.TOPIC_AUTHORIZATION_FAILED: Rule(
        "The principal is not allowed to do this with the topic.",
        SOURCE,
        "Allow it with `kafka-acls.sh --add --topic`: Read for consumers, Write for producers,"
        " Describe for both.",
        WHO,
        "state/apis/metadata.py",
    ),
    Error.GROUP_AUTHORIZATION_FAILED: Rule(
        "The principal is not allowed to use this group.",
        SOURCE,
        "Allow Read with `kafka-acls.sh --add --group`.",
        f"{WHO} A generated group.id.",
        "state/groups/classic_rules.py",
    ),
    Error.CLUSTER_AUTHORIZATION_FAILED: Rule(
        "The principal is not allowed to do this in the cluster.",
        SOURCE,
        "Allow it with `kafka-acls.sh --add --cluster`: Alter, AlterConfigs, Create, Describe,"
        " ClusterAction or IdempotentWrite, depending on the API.",
        f"{WHO} Before Kafka 2.8, idempotent producers need IdempotentWrite (KIP-679).",
        "state/apis/init_producer_id.py",
    ),
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Rule(
        "The principal is not allowed to use this transactional.id.",
        SOURCE,
        "Allow Write and Describe with `kafka-acls.sh --add --transactional-id`.",
        f"{WHO} An id with a random part that no prefixed ACL covers.",
        "state/apis/init_producer_id.py",
    ),
    Error.SECURITY_DISABLED: Rule(
        "The broker has no authorizer, so it has no ACLs.",
        "AclApis",
        "Set authorizer.class.name to use ACLs.",
        "Tools that manage ACLs on a cluster without an authorizer.",
        "state/apis/create_acls.py",
    ),
    Error.SASL_AUTHENTICATION_FAILED: Rule(
        "The credentials are wrong.",
        "KIP-152; SaslServerAuthenticator",
        "Check sasl.jaas.config. Clients do not retry.",
        "A changed password; an unknown user; credentials of another mechanism.",
        "brokertwin/gateway/security/sasl.py",
    ),
    Error.UNSUPPORTED_SASL_MECHANISM: Rule(
        "The listener does not support the client's SASL mechanism.",
        "KIP-43; SaslServerAuthenticator.handleHandshakeRequest",
        "Set sasl.mechanism to one of sasl.enabled.mechanisms; the response lists them.",
        "The client's settings.",
        "brokertwin/gateway/security/sasl.py",
    ),
    Error.ILLEGAL_SASL_STATE: Rule(
        "The request is not allowed at this point of the authentication.",
        "KIP-43; SaslServerAuthenticator",
        "Set security.protocol to that of the listener: SASL_PLAINTEXT or SASL_SSL.",
        "A client without SASL on a listener with SASL, or the reverse.",
        "brokertwin/gateway/security/sasl.py",
    ),
    Error.RESOURCE_NOT_FOUND: Rule(
        "The user has no credentials, or none for this SASL mechanism.",
        "KIP-554; ScramImage, ScramControlManager",
        "Check the name; DescribeUserScramCredentials without names lists all users.",
        "A user that was never added or is already deleted.",
        "brokertwin/gateway/security/scram_users.py",
    ),
    Error.DUPLICATE_RESOURCE: Rule(
        "The request contains a user twice.",
        "KIP-554; ScramImage, ScramControlManager",
        "Send one change for each user in a request.",
        "A deletion and an addition of the same user in one request.",
        "brokertwin/gateway/security/scram_users.py",
    ),
    Error.UNACCEPTABLE_CREDENTIAL: Rule(
        "The user name or salt is missing, the iterations are not between 4096 and 16384, or no"
        " user would be left.",
        "KIP-554; ScramControlManager",
        "Add the missing values; add another user before you delete the last one.",
        "A tool with its own number of iterations; the last entry of a credentials file.",
        "brokertwin/gateway/security/scram_users.py",
    ),
}
