"""Generator of the requests of a history, from its clients so far and random choices."""

from typing import Any, NamedTuple

from tests.support.generated_clients import Choice, Clients, Holder, Member, version_of

TOPICS = ["orders", "orders", "payments"]
GROUPS = ["g", "a/b"]
CONSUMER_GROUP = "c"
SHARE_GROUP = "s"
STREAMS_GROUP = "w"
TRANSACTIONAL_IDS = ["t", "a/b"]


class RequestGenerator(NamedTuple):
    """Generates requests.

    Attributes:
        clients: the clients and the state of the cell so far.
        choice: decides what is generated.
    """

    clients: Clients
    choice: Choice

    def send(self, key: int, broker: int, body: dict[str, Any], **event: Any) -> None:
        broker = self.choice.of(self.clients.brokers) if self.choice.one_in(16) else broker
        if self.choice.one_in(12):
            event["principal"] = "User:other"
        version = event.pop("version", None)
        version = version_of(key, self.choice) if version is None else version
        self.clients.send(key, version, broker, body, **event)

    def any_broker(self) -> int:
        return self.choice.of(self.clients.brokers)

    def place(self) -> tuple[str, int]:
        name = "absent" if self.choice.one_in(24) else self.choice.of(TOPICS)
        return name, self.choice.of([0, 0, 1, 2])

    def member(self) -> Member:
        """Return a client with an assigned id, or an unknown one."""
        members = self.clients.members
        if not members or self.choice.one_in(12):
            return Member(self.choice.of(GROUPS), self.choice.of(["m1", ""]), None, 1)
        member = self.choice.of(members[::-1])
        if self.choice.one_in(12):
            wrong = self.choice.of([1, 0])
            instance = "other" if self.choice.one_in(3) else member.instance
            return Member(member.group, member.member_id, instance, member.generation + wrong)
        return member

    def holder(self, is_transactional: bool) -> Holder:
        held = [
            holder
            for holder in self.clients.holders
            if (holder.transactional_id is not None) == is_transactional
        ]
        name = self.choice.of(TRANSACTIONAL_IDS) if is_transactional else None
        holder = self.choice.of(held[::-1]) if held else Holder(name, 0, 0)
        if self.choice.one_in(16):
            change = self.choice.of([1, -1])
            return Holder(holder.transactional_id, holder.producer_id, holder.epoch + change)
        if self.choice.one_in(24):
            return Holder(holder.transactional_id, holder.producer_id + 1, holder.epoch)
        return holder
