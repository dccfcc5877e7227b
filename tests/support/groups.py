"""A classic group on the bench: members join, sync, send heartbeats, commit and leave."""

from collections import Counter
from typing import Any

from brokertwin.state.core.tables import CellTables
from brokertwin.state.groups import groups
from tests.support.machine import Bench

GROUP = "g"
TOPIC = "foo"
RANGE = [("range", "AAAA")]


class GroupBench(Bench):
    """One broker that coordinates the group `g` and leads the topic `foo`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"offsets_topic_num_partitions": 1, **settings})
        self.topic(TOPIC, 2)
        self.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=[GROUP])

    def after(self, milliseconds: int) -> "GroupBench":
        self.tick(milliseconds)
        return self

    def join(
        self,
        member: str = "",
        protocols: list[tuple[str, str]] = RANGE,
        version: int = 9,
        instance: str | None = None,
        client: str = "app",
        session: int = 45_000,
        rebalance: int = 60_000,
        kind: str = "consumer",
    ) -> str:
        """Send a join; return the request's id, by which `response` finds its result."""
        body = {
            "groupId": GROUP,
            "sessionTimeoutMs": session,
            "rebalanceTimeoutMs": rebalance,
            "memberId": member,
            "groupInstanceId": instance,
            "protocolType": kind,
            "protocols": [{"name": name, "metadata": data} for name, data in protocols],
        }
        return self._send("JOIN_GROUP", version, body, client)

    def new_member(self, **options: Any) -> tuple[str, str]:
        """Join a new member with the id that it receives; return the id and the request's."""
        refused = self.response(self.join(**options))
        assert refused["errorCode"] == 79, refused
        member = str(refused["memberId"])
        return member, self.join(member, **options)

    def sync(
        self,
        member: str,
        generation: int,
        assigned: dict[str, str] | None = None,
        kind: str = "consumer",
    ) -> str:
        """Sends a sync; the leader's has assignments."""
        assignments = [
            {"memberId": each, "assignment": value} for each, value in (assigned or {}).items()
        ]
        body = {
            "groupId": GROUP,
            "generationId": generation,
            "memberId": member,
            "protocolType": kind,
            "protocolName": "range",
            "assignments": assignments,
        }
        return self._send("SYNC_GROUP", 5, body)

    def heartbeat(self, member: str, generation: int, instance: str | None = None) -> int:
        body = {
            "groupId": GROUP,
            "generationId": generation,
            "memberId": member,
            "groupInstanceId": instance,
        }
        return int(self.request("HEARTBEAT", 4, body)["errorCode"])

    def leave(self, *members: str) -> list[int]:
        body = {"groupId": GROUP, "members": [{"memberId": member} for member in members]}
        return [each["errorCode"] for each in self.request("LEAVE_GROUP", 5, body)["members"]]

    def commit(self, member: str = "", generation: int = -1, version: int = 9) -> int:
        """The error of a commit of offset 100 for `foo`-0."""
        partition = {"partitionIndex": 0, "committedOffset": 100, "committedMetadata": ""}
        body = {
            "groupId": GROUP,
            "generationIdOrMemberEpoch": generation,
            "memberId": member,
            "topics": [{"name": TOPIC, "partitions": [partition]}],
        }
        response = self.request("OFFSET_COMMIT", version, body)
        return int(response["topics"][0]["partitions"][0]["errorCode"])

    def response(self, request_id: str) -> dict[str, Any]:
        response: dict[str, Any] = self.responses[request_id]["response"]
        return response

    def waits(self, request_id: str) -> bool:
        """Whether a request has not been answered yet."""
        return request_id not in self.responses

    def state(self) -> str:
        described = self.request("DESCRIBE_GROUPS", 5, groups=[GROUP])
        return str(described["groups"][0]["groupState"])

    def stable(self, *clients: str, **options: Any) -> list[str]:
        """A stable group at generation 1 with a member for each client; their ids, leader first."""
        members = [self.new_member(client=client, **options)[0] for client in clients]
        self.after(2 * self.settings.broker_settings.group_initial_rebalance_delay_ms)
        syncs = [self.sync(member, 1) for member in members[1:]]
        syncs.append(self.sync(members[0], 1, dict.fromkeys(members, "QQ==")))
        assert all(self.response(sync)["errorCode"] == 0 for sync in syncs)
        assert self.state() == "Stable"
        return members

    def _send(self, api: str, version: int, body: dict[str, Any], client: str = "app") -> str:
        header = {
            "requestApiKey": {"JOIN_GROUP": 11, "SYNC_GROUP": 14}[api],
            "requestApiVersion": version,
            "clientId": client,
        }
        return self.send(api, version, body, requestHeader=header)


def check_groups(tables: CellTables, broker: int = 1) -> None:
    """Check the groups, the data derived from their members, and their timers."""
    prefix = f"timer/group/{broker}/"
    timers = {key.removeprefix(prefix) for key in tables.pending.keys(prefix)}
    assert set(groups.live_ids(tables.of(broker))) <= set(groups.stored_ids(tables.of(broker)))
    expected: set[str] = set()
    for group_id in groups.live_ids(tables.of(broker)):
        group = groups.find_live(tables.of(broker), group_id)
        assert group is not None
        members = group.members.values()
        assert group.joining == sum(bool(each.join_id) for each in members)
        assert group.supporters == Counter(
            name for each in members for name in {name for name, _ in each.protocols}
        )
        assert group.static_members == {
            each.group_instance_id: each.member_id
            for each in members
            if each.group_instance_id is not None
        }
        assert (group.leader_id in group.members) == bool(members)
        owners = [*group.pending, *(each.member_id for each in members if not each.is_waiting)]
        expected |= {f"{group_id}/{groups.heartbeat(each)}" for each in owners}
        expected |= {f"{group_id}/sync"} if group.pending_sync else set()
        expected |= {f"{group_id}/join"} if group.state == "PreparingRebalance" else set()
        spare = [each.member_id for each in members if each.is_waiting]
        timers -= {f"{group_id}/{groups.heartbeat(each)}" for each in spare}
    assert timers == expected
