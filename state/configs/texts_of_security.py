"""What logins, TLS and authorization are set to."""

TEXTS = {
    "allow.everyone.if.no.acl.found": "Whether everybody may do what no ACL says anything of.",
    "authorizer.class.name": (
        "The class that decides who may do what; none lets everybody do everything."
    ),
    "connection.failed.authentication.delay.ms": (
        "For how many ms a connection stays open whose login has failed."
    ),
    "connections.max.reauth.ms": (
        "After how many ms a client has to log in again on the same connection."
    ),
    "delegation.token.expiry.check.interval.ms": (
        "How often, in ms, it is looked for delegation tokens that are too old."
    ),
    "delegation.token.expiry.time.ms": (
        "For how many ms a delegation token is valid until it is renewed."
    ),
    "delegation.token.max.lifetime.ms": "For how many ms a delegation token can be renewed.",
    "delegation.token.secret.key": (
        "The key by which delegation tokens are made; all brokers have the same."
    ),
    "sasl.client.callback.handler.class": (
        "The class that answers what a login as a client asks for."
    ),
    "sasl.enabled.mechanisms": "The mechanisms by which clients may log in.",
    "sasl.jaas.config": "The login, or logins, of a listener and mechanism, in the form of JAAS.",
    "sasl.kerberos.kinit.cmd": "The path of Kerberos' kinit.",
    "sasl.kerberos.min.time.before.relogin": (
        "How many ms lie at least between two logins to Kerberos."
    ),
    "sasl.kerberos.principal.to.local.rules": "How principals of Kerberos become short names.",
    "sasl.kerberos.service.name": "The name of Kafka's service in Kerberos.",
    "sasl.kerberos.ticket.renew.jitter": "By which part the time of renewing a ticket is varied.",
    "sasl.kerberos.ticket.renew.window.factor": "After which part of its life a ticket is renewed.",
    "sasl.login.callback.handler.class": "The class that answers what a login asks for.",
    "sasl.login.class": "The class of the login.",
    "sasl.login.connect.timeout.ms": (
        "How many ms a connection to who gives out tokens may take to open."
    ),
    "sasl.login.read.timeout.ms": "How many ms an answer of who gives out tokens may take.",
    "sasl.login.refresh.buffer.seconds": "How many seconds before its end a token is fetched anew.",
    "sasl.login.refresh.min.period.seconds": (
        "How many seconds a token is used at least before it is fetched anew."
    ),
    "sasl.login.refresh.window.factor": "After which part of its life a token is fetched anew.",
    "sasl.login.refresh.window.jitter": (
        "By which part the time of fetching a token anew is varied."
    ),
    "sasl.login.retry.backoff.max.ms": (
        "The longest pause in ms before who gives out tokens is asked again."
    ),
    "sasl.login.retry.backoff.ms": (
        "The first pause in ms before who gives out tokens is asked again."
    ),
    "sasl.mechanism.controller.protocol": "The mechanism by which brokers log in to controllers.",
    "sasl.mechanism.inter.broker.protocol": "The mechanism by which brokers log in to each other.",
    "sasl.oauthbearer.assertion.algorithm": "The algorithm by which an assertion is signed.",
    "sasl.oauthbearer.assertion.claim.aud": "For whom an assertion is.",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "For how many seconds an assertion is valid.",
    "sasl.oauthbearer.assertion.claim.iss": "Who has made an assertion.",
    "sasl.oauthbearer.assertion.claim.jti.include": "Whether an assertion has an id of its own.",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": (
        "From how many seconds before it was made an assertion is valid."
    ),
    "sasl.oauthbearer.assertion.claim.sub": "Of whom an assertion is.",
    "sasl.oauthbearer.assertion.file": "A file with an assertion that is ready.",
    "sasl.oauthbearer.assertion.private.key.file": (
        "The file of the key by which assertions are signed."
    ),
    "sasl.oauthbearer.assertion.private.key.passphrase": "The passphrase of that key.",
    "sasl.oauthbearer.assertion.template.file": "A file of what each assertion has.",
    "sasl.oauthbearer.client.credentials.client.id": "The id with which a token is asked for.",
    "sasl.oauthbearer.client.credentials.client.secret": "The secret that goes with that id.",
    "sasl.oauthbearer.clock.skew.seconds": (
        "By how many seconds clocks may differ when a token is checked."
    ),
    "sasl.oauthbearer.expected.audience": "For whom a token has to be.",
    "sasl.oauthbearer.expected.issuer": "Who has to have made a token.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (
        "How often, in ms, the keys are fetched by which tokens are checked."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (
        "The longest pause in ms before those keys are asked for again."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (
        "The first pause in ms before those keys are asked for again."
    ),
    "sasl.oauthbearer.jwks.endpoint.url": "Where the keys are by which tokens are checked.",
    "sasl.oauthbearer.jwt.retriever.class": "The class that fetches tokens.",
    "sasl.oauthbearer.jwt.validator.class": "The class that checks tokens.",
    "sasl.oauthbearer.scope": "What a token is asked for.",
    "sasl.oauthbearer.scope.claim.name": "The name under which a token says what it is good for.",
    "sasl.oauthbearer.sub.claim.name": "The name under which a token says whose it is.",
    "sasl.oauthbearer.token.endpoint.url": "Where tokens are given out.",
    "sasl.server.callback.handler.class": "The class that checks what a client's login says.",
    "sasl.server.max.receive.size": "The largest message of a login in bytes.",
    "security.inter.broker.protocol": "The security protocol by which brokers reach each other.",
    "security.providers": "Classes of providers of Java's security.",
    "ssl.allow.dn.changes": "Whether a new certificate may name somebody else.",
    "ssl.allow.san.changes": "Whether a new certificate may be for other hosts.",
    "ssl.cipher.suites": (
        "The cipher suites that are offered; all that there are where none is given."
    ),
    "ssl.client.auth": "Whether clients have to show a certificate: required, requested or none.",
    "ssl.enabled.protocols": "The versions of TLS that are offered.",
    "ssl.endpoint.identification.algorithm": (
        "How it is checked that a certificate is for the host; empty for not at all."
    ),
    "ssl.engine.factory.class": "The class that makes TLS engines.",
    "ssl.key.password": "The password of the private key.",
    "ssl.keymanager.algorithm": "The algorithm of Java's key manager.",
    "ssl.keystore.certificate.chain": "The certificates, as PEM.",
    "ssl.keystore.key": "The private key, as PEM.",
    "ssl.keystore.location": "The file of the key store.",
    "ssl.keystore.password": "The password of the key store.",
    "ssl.keystore.type": "The kind of the key store: JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules": "How names in certificates become short names.",
    "ssl.protocol": "The version of TLS, or family of versions, of engines.",
    "ssl.provider": "The provider of TLS in Java.",
    "ssl.secure.random.implementation": "Java's source of random numbers for TLS.",
    "ssl.trustmanager.algorithm": "The algorithm of Java's trust manager.",
    "ssl.truststore.certificates": "The certificates that are trusted, as PEM.",
    "ssl.truststore.location": "The file of the trust store.",
    "ssl.truststore.password": "The password of the trust store.",
    "ssl.truststore.type": "The kind of the trust store: JKS, PKCS12 or PEM.",
    "super.users": "Who may do everything, each as User:name, with semicolons between them.",
}
