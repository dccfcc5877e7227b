"""OAUTHBEARER at the edge; what is said step by step is in `test_sasl_like_kafka.py`."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from brokertwin.errors import UserError
from brokertwin.gateway.protocol.primitives import MalformedError
from brokertwin.gateway.security.oauthbearer import Bearer, RefusedTokenError, Rules, authenticate
from brokertwin.gateway.security.security import Security
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from tests.support.gateways import running_gateway
from tests.support.patience import PATIENCE_S

NOW = 1_700_000_000_000
MECHANISM = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"


def message(**claims: Any) -> bytes:
    parts = [{"alg": "none"}, {"sub": "alice", "exp": NOW / 1000 + 60, **claims}]
    texts = [urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return b"n,,\x01auth=Bearer %b.%b.\x01\x01" % (*texts,)


def test_options_of_the_module_are_heeded() -> None:
    jaas = (
        "org.example.OAuthBearerLoginModule required unsecuredValidatorPrincipalClaimName=name"
        ' unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="5000";'
    )
    rules = Rules.of(jaas)
    assert rules == Rules("name", "scope", ("a", "b"), 5_000)
    expired = {"name": "bob", "scope": ["b", "c", "a"], "exp": NOW / 1000 - 4.9}
    assert authenticate(rules, message(**expired), NOW) == Bearer("bob", NOW - 4_900)
    for other in ({"exp": NOW / 1000 - 5}, {"scope": ["a"]}, {"name": ""}, {"iat": 1e12}):
        with pytest.raises(RefusedTokenError):
            authenticate(rules, message(**(expired | other)), NOW)
    assert Rules.of(None) == Rules()
    with pytest.raises(UserError, match="a number of ms"):
        Rules.of('unsecuredValidatorAllowableClockSkewMs="soon"')


def test_another_scheme_is_no_token() -> None:
    with pytest.raises(MalformedError, match="Basic"):
        authenticate(Rules(), b"n,,\x01auth=Basic abc\x01\x01", NOW)


def test_it_needs_no_users_but_to_be_named(tmp_path: Path) -> None:
    protocol = SecurityProtocol.SASL_PLAINTEXT
    security = Security.of(protocol, MECHANISM)
    assert security.sasl is not None
    assert security.sasl.credentials is None
    assert any("unsecured" in warning for warning in security.warnings)
    with pytest.raises(UserError, match="requires --credentials"):
        Security.of(protocol, {"sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN"})
    with pytest.raises(UserError, match="requires --credentials"):
        Security.of(protocol, {})


def test_a_client_of_librdkafka_logs_in() -> None:
    jaas = 'Module required unsecuredValidatorRequiredScope="read";'
    security = Security.of(SecurityProtocol.SASL_PLAINTEXT, {**MECHANISM, JAAS: jaas})
    with running_gateway(security=security) as running:
        known = {
            "bootstrap.servers": running.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=alice scope=read,write",
        }
        assert AdminClient(known).list_topics(timeout=PATIENCE_S).brokers
