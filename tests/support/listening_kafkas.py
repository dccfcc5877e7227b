"""A real broker with a listener beside that of the brokers, of TLS or another one."""

from collections.abc import Collection, Mapping
from pathlib import Path

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import HOST, EmbeddedKafka, _free_port
from brokertwin.settings import default_home
from tests.support.gateways import Client, client_at

PROTOCOLS = "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,PLAINTEXT:PLAINTEXT"


class ListeningKafka(EmbeddedKafka):
    """A broker with another listener and the other default settings of the embedded one.

    Attributes:
        port: that of the other listener.
    """

    def __init__(
        self,
        home: Path,
        listener: str,
        settings: Mapping[str, str],
        without: Collection[str] = (),
    ) -> None:
        super().__init__(home, default_home())
        self._listener, self._settings, self._without = listener, settings, without
        self.port = 0

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        super()._write_properties(settings)
        own = properties.read(self._properties)
        self.port = _free_port()
        for name in ("listeners", "advertised.listeners"):
            own[name] = f"{own[name]},{self._listener}://{HOST}:{self.port}"
        own["listener.security.protocol.map"] = PROTOCOLS
        own |= self._settings
        given = {name: text for name, text in own.items() if name not in self._without}
        self._properties.write_text(properties.dump(given), encoding="utf-8")

    @property
    def given(self) -> dict[str, str]:
        return properties.read(self._properties)

    def client(self) -> Client:
        return client_at(self.status().bootstrap or "")
