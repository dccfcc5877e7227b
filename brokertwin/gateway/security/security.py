"""Security of a gateway's ports: TLS, SASL, both, or neither.

Settings have Kafka's names. Credentials are in a file of their own (`credentials.py`).
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties, prefix_of
from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.security import (
    delegation_tokens,
    oauthbearer,
    plain,
    principals,
    signed_tokens,
    tls,
)
from brokertwin.gateway.security.credentials import Credentials, mode_warning
from brokertwin.gateway.security.delegation_tokens import Tokens
from brokertwin.gateway.security.principals import PrincipalRule
from brokertwin.gateway.security.sasl import (
    ANONYMOUS,
    MECHANISMS,
    WITH_USERS,
    Authentication,
    SaslAuthentication,
    SaslSettings,
    SaslStep,
)
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.tls import Tls

TIME_MAX_S = 60.0
"""Time limit of a TLS handshake, and of SASL. Kafka has only the idle time."""

_SASL_SETTINGS = frozenset(
    {
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.server.max.receive.size",
        signed_tokens.HANDLER,
        *signed_tokens.SETTINGS,
    }
)
_MECHANISMS, _CLIENT_AUTH, _REAUTH = (
    "sasl.enabled.mechanisms",
    "ssl.client.auth",
    "connections.max.reauth.ms",
)


class GatewaySecurity(NamedTuple):
    """Security of a gateway's ports; by default PLAINTEXT.

    `warnings` has a sentence for each misleading setting.
    """

    tls: Tls | None = None
    sasl: SaslSettings | None = None
    rules: tuple[PrincipalRule, ...] = (PrincipalRule(None),)
    failure_delay_s: float = 0.1
    time_max_s: float = TIME_MAX_S
    warnings: tuple[str, ...] = ()
    token_key: str | None = None
    """`delegation.token.secret.key`; None disables delegation tokens."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """Protocol of the ports; the listener is named after it."""
    secrets: Path | None = None
    """File of altered store passwords."""
    given: Mapping[str, str] = MappingProxyType({})
    credentials: Path | None = None
    """Credentials file."""

    def allows_token_requests(self, authentication: Authentication) -> bool:
        """True if delegation token requests are allowed (`allowTokenRequests`)."""
        if authentication.is_by_token:
            return False
        return self.sasl is not None or (
            self.tls is not None and authentication.principal != ANONYMOUS
        )

    @classmethod
    def of(
        cls,
        protocol: SecurityProtocol,
        texts: Mapping[str, str],
        credentials: Path | None = None,
        secrets: Path | None = None,
        listener: str | None = None,
    ) -> "GatewaySecurity":
        """Create from broker settings.

        Args:
            protocol: protocol of the ports.
            texts: broker settings by Kafka's names, with secrets.
            credentials: credentials file.
            secrets: file of altered store passwords; None: in memory only.
            listener: listener name; None: that of the protocol.

        Raises:
            UserError: something is missing, unreadable or unsupported.
        """
        if credentials is not None and not protocol.has_sasl:
            raise UserError(
                f"--credentials has no effect with --security-protocol {protocol}.",
                "Pass --security-protocol SASL_SSL or SASL_PLAINTEXT.",
            )
        warnings: list[str] = []
        properties = _properties(protocol, texts, listener or protocol, warnings)
        secured = Tls(properties) if protocol.has_tls else None
        sasl = _sasl(protocol, properties, credentials, warnings) if protocol.has_sasl else None
        return cls(
            secured,
            sasl,
            tuple(principals.parse_rules(properties.text(principals.SETTING) or "")),
            properties.value("connection.failed.authentication.delay.ms") / 1000,
            TIME_MAX_S,
            tuple(warnings),
            texts.get(delegation_tokens.SETTING),
            protocol,
            secrets,
            texts,
            credentials,
        )

    def of_listener(
        self, name: str, protocol: SecurityProtocol, own: Mapping[str, str]
    ) -> "GatewaySecurity":
        """Return the security of another listener, with its own settings.

        Raises:
            UserError: as `of`.
        """
        credentials = self.credentials if protocol.has_sasl else None
        return GatewaySecurity.of(protocol, {**self.given, **own}, credentials, listener=name)

    def properties_of(self, name: str, protocol: SecurityProtocol) -> BrokerProperties:
        """Return the settings of another listener, as given at the start."""
        return _properties(protocol, self.given, name, [])

    def authentication(
        self,
        transport: asyncio.BaseTransport,
        features: Features | None = None,
        tokens: Tokens | None = None,
        broker: int = 1,
    ) -> Authentication:
        """Create the authentication of a new connection to a broker.

        `features` are those known before authentication, `tokens` the accepted delegation tokens.
        """
        if self.sasl is not None:
            return SaslAuthentication(self.sasl, features=features, tokens=tokens, broker=broker)
        secured = transport.get_extra_info("ssl_object")
        certificate = secured.getpeercert(binary_form=True) if secured is not None else None
        if certificate is None:
            return Authentication()
        principal = principals.principal_of(certificate, list(self.rules))
        return Unnamed() if principal is None else Authentication(principal)


class Unnamed(Authentication):
    """Owner of a certificate whose name matches no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.is_complete = False

    def takes(self, frame: bytes) -> bool:
        return True

    async def receive(self, frame: bytes) -> SaslStep:
        return SaslStep(None, f"no rule of {principals.SETTING} applies to the certificate's name")


def settings_used(protocol: SecurityProtocol) -> frozenset[str]:
    """Return the settings with an effect, also under the listener's prefix."""
    names = (tls.SETTINGS if protocol.has_tls else frozenset()) | (
        _SASL_SETTINGS if protocol.has_sasl else frozenset()
    )
    prefix = prefix_of(protocol)
    bearer = f"{prefix}{oauthbearer.MECHANISM.lower()}."
    of_bearers = {oauthbearer.JAAS, signed_tokens.HANDLER, *signed_tokens.SETTINGS}
    of_mechanisms = {bearer + name for name in of_bearers} | {
        f"{prefix}{each.lower()}.{_REAUTH}" for each in MECHANISMS
    }
    prefixed = {prefix + name for name in names}
    names |= {delegation_tokens.SETTING}
    return names | prefixed | (of_mechanisms if protocol.has_sasl else set())


def _properties(
    protocol: SecurityProtocol, texts: Mapping[str, str], listener: str, warnings: list[str]
) -> BrokerProperties:
    """With SASL_SSL only the listener's own `ssl.client.auth` has an effect (KIP-684)."""
    properties = BrokerProperties(texts, listener)
    is_bare = _CLIENT_AUTH in texts and properties.of_listener(_CLIENT_AUTH) is None
    if protocol is not SecurityProtocol.SASL_SSL or not is_bare:
        return properties
    if texts[_CLIENT_AUTH].strip() != "none":
        warnings.append(
            f"{_CLIENT_AUTH} has no effect with {protocol}, as in Kafka; "
            f"{prefix_of(listener)}{_CLIENT_AUTH} has"
        )
    return BrokerProperties({k: v for k, v in texts.items() if k != _CLIENT_AUTH}, listener)


def _sasl(
    protocol: SecurityProtocol,
    properties: BrokerProperties,
    credentials: Path | None,
    warnings: list[str],
) -> SaslSettings:
    is_given = properties.given(_MECHANISMS) is not None
    enabled = properties.names(_MECHANISMS) if is_given else list(WITH_USERS)
    if credentials is None and not set(WITH_USERS).isdisjoint(enabled):
        raise UserError(
            f"--security-protocol {protocol} requires --credentials.",
            "Add --credentials FILE; create it with: brokertwin credentials add FILE USER",
        )
    unknown = [name for name in enabled if name not in MECHANISMS]
    if unknown or not enabled:
        raise UserError(
            f"Unsupported value of {_MECHANISMS}: {','.join(enabled)}.",
            f"Use: {', '.join(MECHANISMS)}.",
        )
    if plain.MECHANISM in enabled and protocol is SecurityProtocol.SASL_PLAINTEXT:
        warnings.append("with PLAIN over SASL_PLAINTEXT passwords can be read on the network")
    bearer: oauthbearer.TokenRules = oauthbearer.TokenRequirements()
    if oauthbearer.MECHANISM in enabled:
        bearer = _bearer(properties, warnings)
    known = Credentials(credentials) if credentials is not None else None
    warning = mode_warning(credentials) if credentials is not None else None
    warnings += [warning] if warning else []
    return SaslSettings(
        known,
        tuple(sorted(set(enabled))),
        {each: max(properties.value(_REAUTH, each), 0) for each in enabled},
        properties.value("sasl.server.max.receive.size"),
        asyncio.Semaphore(1),
        bearer,
    )


def _bearer(properties: BrokerProperties, warnings: list[str]) -> oauthbearer.TokenRules:
    if signed_tokens.is_wanted(properties):
        lacking = [
            name
            for name in (signed_tokens.AUDIENCE, signed_tokens.ISSUER)
            if not properties.given(name, oauthbearer.MECHANISM)
        ]
        if lacking:
            warnings.append(
                f"without {' and '.join(lacking)} tokens issued for other services are accepted"
            )
        return signed_tokens.SignedRules.of(properties)
    warnings.append("OAUTHBEARER tokens are unsecured: a client may claim any principal")
    return oauthbearer.TokenRequirements.of(
        properties.given(oauthbearer.JAAS, oauthbearer.MECHANISM)
    )
