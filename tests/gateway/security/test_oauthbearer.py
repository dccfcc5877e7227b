"""OAUTHBEARER at the gateway; `test_sasl_like_kafka.py` has each step."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from brokertwin.errors import UserError
from brokertwin.gateway.security.oauthbearer import (
    Bearer,
    RefusedTokenError,
    TokenRequirements,
    authenticate,
)
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.protocol.primitives import MalformedError
from tests.support.gateways import running_gateway
from tests.support.patience import PATIENCE_S

NOW = 1_700_000_000_000
MECHANISM = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"


def message(**claims: Any) -> bytes:
    parts = [{"alg": "none"}, {"sub": "alice", "exp": NOW / 1000 + 60, **claims}]
    texts = [urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return b"n,,\x01auth=Bearer %b.%b.\x01\x01" % (*texts,)


def test_options_of_the_login_module_apply() -> None:
    jaas = (
        "org.example.OAuthBearerLoginModule required unsecuredValidatorPrincipalClaimName=name"
        ' unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="5000";'
    )
    rules = TokenRequirements.of(jaas)
    assert rules == TokenRequirements("name", "scope", ("a", "b"), 5_000)
    expired = {"name": "bob", "scope": ["b", "c", "a"], "exp": NOW / 1000 - 4.9}
    assert authenticate(rules, message(**expired), NOW) == Bearer("bob", NOW - 4_900)
    for other in ({"exp": NOW / 1000 - 5}, {"scope": ["a"]}, {"name": ""}, {"iat": 1e12}):
        with pytest.raises(RefusedTokenError):
            authenticate(rules, message(**(expired | other)), NOW)
    assert TokenRequirements.of(None) == TokenRequirements()
    with pytest.raises(UserError, match="a number of ms"):
        TokenRequirements.of('unsecuredValidatorAllowableClockSkewMs="soon"')


def test_token_of_another_scheme_is_refused() -> None:
    with pytest.raises(MalformedError, match="Basic"):
        authenticate(TokenRequirements(), b"n,,\x01auth=Basic abc\x01\x01", NOW)


def test_oauthbearer_needs_no_users_except_named_ones(tmp_path: Path) -> None:
    protocol = SecurityProtocol.SASL_PLAINTEXT
    security = GatewaySecurity.of(protocol, MECHANISM)
    assert security.sasl is not None
    assert security.sasl.credentials is None
    assert any("unsecured" in warning for warning in security.warnings)
    with pytest.raises(UserError, match="requires --credentials"):
        GatewaySecurity.of(protocol, {"sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN"})
    with pytest.raises(UserError, match="requires --credentials"):
        GatewaySecurity.of(protocol, {})


def test_librdkafka_client_logs_in() -> None:
    jaas = 'Module required unsecuredValidatorRequiredScope="read";'
    security = GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, {**MECHANISM, JAAS: jaas})
    with running_gateway(security=security) as running:
        settings = {
            "bootstrap.servers": running.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=alice scope=read,write",
        }
        assert AdminClient(settings).list_topics(timeout=PATIENCE_S).brokers
