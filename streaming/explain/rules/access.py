"""Errors of who may do what."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

WHO = (
    "A principal that is new or was renamed; a client without its credentials, which is then"
    " User:ANONYMOUS; an ACL that names another host."
)
SOURCE = "KIP-11; KafkaApis, ControllerApis, AuthHelper.authorize, StandardAuthorizer"

RULES: dict[int, Rule] = {
    Error.TOPIC_AUTHORIZATION_FAILED: Rule(
        "The principal may not do this with the topic.",
        SOURCE,
        "Allow it: `kafka-acls.sh --add --topic`, with Read for consumers, Write for producers,"
        " Describe for both.",
        WHO,
        "state/apis/metadata.py",
    ),
    Error.GROUP_AUTHORIZATION_FAILED: Rule(
        "The principal may not use this group.",
        SOURCE,
        "Allow it: `kafka-acls.sh --add --group`, with Read.",
        f"{WHO} A group.id that was made up by the client.",
        "state/groups/group_rules.py",
    ),
    Error.CLUSTER_AUTHORIZATION_FAILED: Rule(
        "The principal may not do this in the cluster.",
        SOURCE,
        "Allow it: `kafka-acls.sh --add --cluster`, with Alter, AlterConfigs, Create, Describe,"
        " ClusterAction or IdempotentWrite, as the API needs.",
        f"{WHO} Idempotent producers need IdempotentWrite of brokers before 2.8 (KIP-679).",
        "state/apis/init_producer_id.py",
    ),
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Rule(
        "The principal may not use this transactional.id.",
        SOURCE,
        "Allow it: `kafka-acls.sh --add --transactional-id`, with Write and Describe.",
        f"{WHO} An id that has a random part, which no ACL by prefix covers.",
        "state/apis/init_producer_id.py",
    ),
    Error.SECURITY_DISABLED: Rule(
        "The broker has no authorizer, so there are no ACLs.",
        "AclApis",
        "Set authorizer.class.name, if there are to be some.",
        "Tools that manage ACLs on a cluster without any.",
        "state/apis/create_acls.py",
    ),
    Error.SASL_AUTHENTICATION_FAILED: Rule(
        "The credentials are wrong.",
        "KIP-152; SaslServerAuthenticator",
        "Look at sasl.jaas.config; clients do not try again by themselves.",
        "A password that was changed; a user that is not there; another mechanism's credentials.",
        "gateway/sasl.py",
    ),
    Error.UNSUPPORTED_SASL_MECHANISM: Rule(
        "The listener does not have the SASL mechanism that the client wants.",
        "KIP-43; SaslServerAuthenticator.handleHandshakeRequest",
        "Set sasl.mechanism to one of sasl.enabled.mechanisms; the answer lists them.",
        "The client's settings.",
        "gateway/sasl.py",
    ),
    Error.ILLEGAL_SASL_STATE: Rule(
        "The request is none that may come at this point of a login.",
        "KIP-43; SaslServerAuthenticator",
        "Give security.protocol the value of the listener: SASL_PLAINTEXT or SASL_SSL.",
        "A client without SASL on a listener with it, or the other way round.",
        "gateway/sasl.py",
    ),
    Error.RESOURCE_NOT_FOUND: Rule(
        "The user has no credentials, or none for this SASL mechanism.",
        "KIP-554; ScramImage, ScramControlManager",
        "Look at the name; DescribeUserScramCredentials without names lists all users.",
        "A user that was never added, or is deleted already.",
        "gateway/scram_users.py",
    ),
    Error.DUPLICATE_RESOURCE: Rule(
        "The request names a user twice.",
        "KIP-554; ScramImage, ScramControlManager",
        "Send one change for each user, and another request for a second one.",
        "A deletion and an addition of the same user, sent together.",
        "gateway/scram_users.py",
    ),
    Error.UNACCEPTABLE_CREDENTIAL: Rule(
        "The user has no name, the iterations are not from 4096 to 16384, there is no salt, or"
        " nobody could log in any more.",
        "KIP-554; ScramControlManager",
        "Give what is missing; add another user before the last one goes.",
        "A tool's own number of iterations; the last entry of a credentials file.",
        "gateway/scram_users.py",
    ),
}
