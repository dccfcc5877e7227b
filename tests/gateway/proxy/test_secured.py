"""The proxy between clients and brokers with TLS and SASL."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.broker.proxy import RelayEnds
from brokertwin.cli.main import app
from brokertwin.cli.options import settings_of
from brokertwin.cli.recordings.capture import relay_ends
from brokertwin.gateway.faults.injection import FaultSet
from brokertwin.gateway.proxy.proxy import FaultProxy
from brokertwin.testing import FaultSpec, KafkaBroker
from tests.cli.broker.test_exam_secured import secured
from tests.support.certificates import Authority


@contextmanager
def running(ends: RelayEnds, faults: FaultSet) -> Iterator[str]:
    """Run a proxy with these ends; provide its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = FaultProxy(ends.listen, ends.broker, faults, None, None, ends.tls, ends.listen_tls)
    try:
        asyncio.run_coroutine_threadsafe(proxy.start(), loop).result()
        host, port = proxy.addresses[ends.broker]
        yield f"{host}:{port}"
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def in_between(
    broker: KafkaBroker, config: Path, home: Path, *specs: FaultSpec
) -> Iterator[tuple[str, Path, FaultSet]]:
    authority = Authority()
    key = authority.issue("proxy", "127.0.0.1").store(home / "proxy.pem")
    listen = home / "listen.properties"
    listen.write_text(f"ssl.keystore.location={key}\nssl.keystore.type=PEM\n", encoding="utf-8")
    trusted = home / "of_proxy.pem"
    trusted.write_text(authority.certificate, encoding="ascii")
    client = home / "of_client.properties"
    text = config.read_text(encoding="utf-8").replace("trusted.pem", "of_proxy.pem")
    client.write_text(text, encoding="utf-8")
    ends = relay_ends(
        "127.0.0.1:0", broker.bootstrap, None, settings_of(None, kafka_config=config), listen
    )
    faults = FaultSet(specs)
    with running(ends, faults) as address:
        yield address, client, faults


def test_clients_and_brokers_speak_tls_with_the_proxy(tmp_path: Path) -> None:
    with (
        secured("SCRAM-SHA-256", tmp_path) as (broker, config),
        in_between(broker, config, tmp_path) as (address, client, _),
    ):
        words = ["exam", address, "--kafka-config", str(client), "--only", "idem_in", "--yes"]
        done = CliRunner().invoke(app, words)
        assert "2 of 2 played scenarios agree" in done.output, (done.output, done.exception)
        assert {each["principal"] for each in broker.requests("PRODUCE")} == {"User:alice"}


@pytest.mark.parametrize(
    ("api", "error", "message"),
    [
        ("SASL_HANDSHAKE", "ILLEGAL_SASL_STATE", "refused SASL: 34 ILLEGAL_SASL_STATE"),
        ("SASL_AUTHENTICATE", "SASL_AUTHENTICATION_FAILED", "rejected the login of alice"),
    ],
)
def test_errors_of_a_login_are_injected(api: str, error: str, message: str, tmp_path: Path) -> None:
    spec = FaultSpec(effect="fail", api=api, error=error)
    with (
        secured("PLAIN", tmp_path) as (broker, config),
        in_between(broker, config, tmp_path, spec) as (address, client, faults),
    ):
        words = ["exam", address, "--kafka-config", str(client), "--only", "idem_in", "--yes"]
        done = CliRunner().invoke(app, words)
        assert message in str(done.exception)
        assert faults.faults[0].hits == 1
