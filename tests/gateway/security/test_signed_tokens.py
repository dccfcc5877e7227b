"""Signed tokens of OAUTHBEARER: precedence of settings, unusual tokens and keys."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security.oauthbearer import RefusedTokenError
from brokertwin.gateway.security.security import GatewaySecurity, settings_used
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.signed_tokens import (
    AUDIENCE,
    HANDLER,
    ISSUER,
    VALIDATOR,
    SignedRules,
)
from brokertwin.gateway.security.token_keys import ENDPOINT

NOW_S = 1_700_000_000
SECRET = b"s" * 64
OF_BEARERS = "listener.name.sasl_ssl.oauthbearer."

Rules = Callable[..., SignedRules]


def key(secret: bytes, **fields: object) -> dict[str, object]:
    return {"kty": "oct", "k": base64.urlsafe_b64encode(secret).decode().rstrip("="), **fields}


def write(file: Path, *keys: dict[str, Any]) -> None:
    """Write a JWKS with a new modification time."""
    former = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(json.dumps({"keys": keys}))
    os.utime(file, ns=(former + 1, former + 1))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    write(file, key(SECRET, kid="a"))
    return file


@pytest.fixture
def rules(keys: Path) -> Rules:
    def made(**options: str) -> SignedRules:
        return SignedRules.of(BrokerProperties({ENDPOINT: f"file://{keys}", **options}, "SASL_SSL"))

    return made


def token(secret: bytes = SECRET, **claims: object) -> str:
    held = {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S, **claims}
    return jwt.PyJWS().encode(json.dumps(held).encode(), secret, "HS256", {"kid": "a"})


def is_taken(made: SignedRules, text: str) -> bool:
    try:
        return made.bearer(text, 1000 * NOW_S).user == "alice"
    except RefusedTokenError:
        return False


@pytest.mark.parametrize("prefix", ["", "listener.name.sasl_ssl.", OF_BEARERS])
def test_setting_prefixed_with_listener_and_mechanism_has_precedence(
    rules: Rules, prefix: str
) -> None:
    made = rules(**{f"{prefix}{ISSUER}": "https://right", f"{prefix}{AUDIENCE}": "kafka"})
    assert is_taken(made, token(iss="https://right", aud="kafka"))
    assert not is_taken(made, token(iss="https://wrong", aud="kafka"))
    assert not is_taken(made, token(iss="https://right"))
    assert {f"{prefix}{ISSUER}", f"{prefix}{AUDIENCE}"} <= settings_used(SecurityProtocol.SASL_SSL)


@pytest.mark.parametrize(
    "claims",
    [{"aud": 5}, {"aud": True}, {"exp": 10**30}, {"exp": 10**400}, {"nbf": 10**30}, {"iat": True}],
    ids=str,
)
def test_claims_of_wrong_types_and_sizes_are_refused(rules: Rules, claims: dict[str, Any]) -> None:
    assert is_taken(rules(), token())
    assert not is_taken(rules(), token(**claims))


@pytest.mark.parametrize("algorithm", [["HS256"], {}, None, 5], ids=str)
def test_unknown_algorithm_is_refused(rules: Rules, algorithm: object) -> None:
    _, claims, signature = token().split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).decode().rstrip("=")
    assert not is_taken(rules(), f"{head}.{claims}.{signature}")


@pytest.mark.parametrize("given", [{}, {AUDIENCE: "kafka"}, {AUDIENCE: "kafka", ISSUER: "login"}])
def test_missing_audience_is_warned_about(keys: Path, given: dict[str, str]) -> None:
    settings = {"sasl.enabled.mechanisms": "OAUTHBEARER", ENDPOINT: keys.as_uri(), **given}
    handler = f"listener.name.sasl_plaintext.oauthbearer.{HANDLER}"
    made = GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, {handler: VALIDATOR, **settings})
    warned = " ".join(made.warnings)
    assert {name for name in (AUDIENCE, ISSUER) if name in warned} == {
        AUDIENCE,
        ISSUER,
    } - given.keys()
