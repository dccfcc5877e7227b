"""Checks that a broker accepts the clients, before a command starts."""

from contextlib import closing

from brokertwin.clients.client_loop import SOFTWARE, Connected, Disconnected, ResponseReceived, Send
from brokertwin.clients.io.security import addresses_to, properties_of, protocol_of
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms
from brokertwin.clients.network import Connect
from brokertwin.clients.partitions import Node
from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties, check_reachable

WAIT_MS = 15_000


def check_access(kafka: ClientProperties, timeout_ms: int = WAIT_MS) -> None:
    """Connect to a broker, log in and send a request.

    With TLS 1.3, only the first response shows whether the broker accepts the client's certificate.

    Raises:
        UserError: no broker responds, properties are missing, or the login fails.
    """
    protocol = protocol_of(kafka.values)
    check_reachable(kafka.bootstrap)
    if not (protocol.has_tls or protocol.has_sasl):
        return
    until = monotonic_ms() + timeout_ms
    nodes = [Node(-1 - at, *each) for at, each in enumerate(addresses_to(kafka))]
    with closing(SocketNetwork(properties_of(kafka), "brokertwin")) as network:
        for node in nodes:
            network.do(Connect(node))
        lost = 0
        while lost < len(nodes) and monotonic_ms() < until:
            for event in network.wait(until - monotonic_ms()):
                if isinstance(event, Connected):
                    network.do(Send(event.node, 1, "API_VERSIONS", 0, SOFTWARE))
                elif isinstance(event, ResponseReceived):
                    return
                lost += isinstance(event, Disconnected)
        network.wait(0)  # raises the broker's reason, if there is one
    raise UserError(
        f"Kafka at {kafka.bootstrap} does not respond to {protocol}: it closed the connection or"
        " sent nothing.",
        "Check security.protocol: the listener must use the same protocol.",
    )
