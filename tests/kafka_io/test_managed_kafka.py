"""Logins of managed Kafka over TLS: what `offsets` uses, at a local listener with SASL_SSL."""

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.kafka_io import tokens, topics
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.offsets import group_offsets
from brokertwin.settings import Settings
from tests.gateway.security.test_key_stores import made_by_java
from tests.gateway.security.test_security import QUICK, users
from tests.support import sasl
from tests.support.certificates import Authority
from tests.support.gateways import HOST, Running, running_gateway

LOGIN = f'x.Login required username="{sasl.USER}" password="{sasl.PASSWORD}";'
UNSECURED = 'x.Login required unsecuredLoginStringClaim_sub="alice";'
MECHANISMS = {
    "PLAIN": LOGIN,
    "SCRAM-SHA-256": LOGIN,
    "OAUTHBEARER": UNSECURED,
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule required;",
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Running]:
    """Yield a gateway with TLS and all mechanisms, as managed clusters have."""
    directory = tmp_path_factory.mktemp("managed")
    store = authority.issue("broker", HOST).store(directory / "broker.pem")
    settings = {
        **QUICK,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    }
    secured = GatewaySecurity.of(SecurityProtocol.SASL_SSL, settings, users(directory))
    with running_gateway(security=secured) as running:
        yield running


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for Amazon's package: its token is one that the gateway accepts."""

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            assert region == "eu-west-1"
            return tokens.unsecured("alice"), round(time.time() * 1000) + 900_000

    module = ModuleType("aws_msk_iam_sasl_signer")
    module.__dict__["MSKAuthTokenProvider"] = MSKAuthTokenProvider
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_offsets_logs_in(
    mechanism: str, gateway: Running, authority: Authority, tmp_path: Path, signer: None
) -> None:
    (tmp_path / "ca.pem").write_text(authority.certificate)
    file = tmp_path / "client.properties"
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": MECHANISMS[mechanism],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    client = client_properties(Settings(bootstrap=gateway.bootstrap, kafka_config=file))
    assert group_offsets.cluster_id(client)
    assert list(group_offsets.found(client, ()).logs) == []
    with pytest.raises(UserError, match="Group g does not exist"):
        group_offsets.deletable(client, "g")


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_stores_made_by_keytool_are_used(kind: str, authority: Authority, tmp_path: Path) -> None:
    """As trust and key store, by both libraries; the machine does not know the authority."""
    (tmp_path / "ca.pem").write_text(authority.certificate)
    given = made_by_java(tmp_path, kind)
    del given["ssl.client.auth"]
    settings = {
        "ssl.keystore.location": str(authority.issue("b", HOST).store(tmp_path / "b.pem")),
        "ssl.truststore.location": str(tmp_path / "broker.pem"),
        "ssl.client.auth": "required",
    }
    security = GatewaySecurity.of(SecurityProtocol.SSL, settings)
    with running_gateway(security=security) as running:
        values = {"bootstrap.servers": running.bootstrap, "security.protocol": "SSL", **given}
        client = ClientProperties(values)
        assert client.warnings() == []
        assert list(group_offsets.found(client, ()).logs) == []
        with pytest.raises(UserError, match="Group g does not exist"):
            group_offsets.deletable(client, "g")
    with pytest.raises(UserError, match=rf"Cannot open the {kind} store of ssl.truststore"):
        ClientProperties({**values, "ssl.truststore.password": "wrong"}).for_confluent()


def test_certificate_errors_name_javas_properties(gateway: Running, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    values = {
        "bootstrap.servers": gateway.bootstrap,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(file),
    }
    for text, message in (
        (Authority().certificate, "verify that ssl.truststore.location is correctly configured"),
        ("nothing", "ssl.truststore.location failed: "),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=message) as error:
            list(group_offsets.rows(ClientProperties(values), {}))
        assert "ssl.ca" not in str(error.value)


@pytest.mark.parametrize("ask", [group_offsets.cluster_id, lambda c: group_offsets.found(c, ())])
def test_a_listener_of_another_protocol_does_not_respond(
    ask: Callable[[ClientProperties], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses nothing, so the user's ACLs are not to blame."""
    for module in (group_offsets, topics):
        monkeypatch.setattr(module, "KAFKA_TIMEOUT_S", 3)
    with running_gateway() as running:
        values = {"bootstrap.servers": running.bootstrap, "security.protocol": "SSL"}
        with pytest.raises(UserError, match="did not respond: ") as error:
            ask(ClientProperties(values))
    assert "the listener at this address is SSL" in error.value.hint
    assert "ACL" not in str(error.value)


def test_a_wrong_password_is_one_sentence(
    gateway: Running, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(authority.certificate)
    values = {
        "bootstrap.servers": gateway.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN.replace(sasl.PASSWORD, "wrong"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    with pytest.raises(UserError, match=r"did not respond: .*SASL authentication error"):
        list(group_offsets.rows(ClientProperties(values), {}))


@pytest.mark.parametrize(
    ("address", "region"),
    [
        ("b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com:9098", "eu-west-1"),
        ("boot-abc.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
    ],
)
def test_the_region_is_that_of_the_address(
    address: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("aws_msk_iam_sasl_signer")

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(name: str) -> tuple[str, int]:
            return f"token of {name}", 0

    module.__dict__["MSKAuthTokenProvider"] = MSKAuthTokenProvider
    monkeypatch.setitem(sys.modules, module.__name__, module)
    properties = {"bootstrap.servers": address, "sasl.mechanism": "AWS_MSK_IAM"}
    assert tokens.source_of(properties, {})() == f"token of {region}"


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with pytest.raises(UserError, match="needs the package aws-msk-iam-sasl-signer-python"):
        tokens.source_of({"sasl.mechanism": "AWS_MSK_IAM"}, {})


def test_a_token_ends_at_its_own_time_or_soon() -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": 5}).encode()).decode().rstrip("=")
    assert tokens.expires_at(f"x.{payload}.y") == 5
    for opaque in ("", "opaque", "a.b.c", "a.bnVsbA.c"):
        assert 0 < tokens.expires_at(opaque) - time.time() <= tokens.UNKNOWN_LIFETIME_S
