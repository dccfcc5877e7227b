"""Scripts of accidents on three real brokers, each with what an audit may and must say of it.

An entry of `must` and `may` is the kind of a finding and its subject; `*` is any subject. All other
warnings and errors are false. `make record NAME=score/member_killed` records one script,
`NAME=score` all of them.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.score.real_cluster import (
    HASTY,
    PATIENCE_S,
    SESSION_MS,
    SETTINGS,
    RealCluster,
    wait_s,
)
from tests.support.patience import wait_until

Said = tuple[str, str]
SESSION_S = SESSION_MS / 1000


class Accident(NamedTuple):
    run: Callable[[RealCluster], None]
    must: tuple[Said, ...]
    may: tuple[Said, ...]
    settings: Mapping[str, str]


ACCIDENTS: dict[str, Accident] = {}
BROKER_GONE: tuple[Said, ...] = (
    *(("broker-gone", "*"), ("refused", "*"), ("isr-shrunk", "*"), ("leader-changed", "*")),
    *(("session-lost", "*"), ("rebalances", "*")),
    *(("member-refused", "group *"), ("commit-refused", "group *")),
)
"""What a broker's absence may cause."""


def accident(
    *must: Said, may: tuple[Said, ...] = (), settings: Mapping[str, str] = HASTY
) -> Callable[[Callable[[RealCluster], None]], Callable[[RealCluster], None]]:
    def add(run: Callable[[RealCluster], None]) -> Callable[[RealCluster], None]:
        ACCIDENTS[run.__name__] = Accident(run, must, may, {**SETTINGS, **settings})
        return run

    return add


@accident(("member-dropped", "group killing"))
def member_killed(cluster: RealCluster) -> None:
    cluster.topic("killing")
    one = cluster.consumer("kill-a", "killing", ["killing"])
    two = cluster.consumer("kill-b", "killing", ["killing"])
    one.await_count("assigned", 2)
    two.kill()
    one.await_count("assigned", 3)


@accident(
    ("member-dropped", "group freezing"),
    may=(("member-refused", "group freezing"), ("commit-refused", "group freezing")),
)
def member_frozen(cluster: RealCluster) -> None:
    """A member is frozen for longer than its session, and goes on."""
    cluster.topic("freezing")
    one = cluster.consumer("freeze-a", "freezing", ["freezing"])
    two = cluster.consumer("freeze-b", "freezing", ["freezing"])
    one.await_count("assigned", 2)
    two.freeze(True)
    one.await_count("assigned", 3)
    two.freeze(False)
    two.await_("assigned")


@accident(may=(("max-poll-exceeded", "group polling"),))
def past_max_poll(cluster: RealCluster) -> None:
    """An application does not poll for max.poll.interval.ms: its client leaves, and returns.

    librdkafka gives no reason.
    """
    cluster.topic("polling")
    one = cluster.consumer("poll-a", "polling", ["polling"])
    two = cluster.consumer("poll-b", "polling", ["polling"], max_poll_interval_ms=SESSION_MS)
    one.await_count("assigned", 2)
    two.hang()
    one.await_count("assigned", 3)
    two.hang()
    two.await_("assigned")


@accident()
def redeployed(cluster: RealCluster) -> None:
    """A member of a classic group is closed and started again, twelve times."""
    cluster.topic("deploying")
    one = cluster.consumer("deploy-a", "deploying", ["deploying"])
    for count in range(12):
        two = cluster.consumer("deploy-b", "deploying", ["deploying"])
        one.await_count("assigned", 2 * count + 2)
        two.close()
        one.await_count("assigned", 2 * count + 3)


ACCIDENTS["redeployed"] = ACCIDENTS["redeployed"]._replace(may=(("rebalances", "group deploying"),))


@accident(("instance-fenced", "group static"))
def static_member_twice(cluster: RealCluster) -> None:
    """A static member returns within its session; then a second process takes its instance id."""
    cluster.topic("static")
    other = cluster.consumer("static-a", "static", ["static"], group_instance_id="a")
    one = cluster.consumer("static-b", "static", ["static"], group_instance_id="b")
    other.await_count("assigned", 2)
    one.close()
    one = cluster.consumer("static-b", "static", ["static"], group_instance_id="b")
    cluster.consumer("static-c", "static", ["static"], group_instance_id="b")
    one.await_count("error", 1)


@accident(may=(("rebalances", "group modern"), ("member-refused", "group modern")))
def consumer_protocol(cluster: RealCluster) -> None:
    """Members of KIP-848: one leaves (-1), a static one is away (-2) and returns, one is killed."""
    cluster.topic("modern", partitions=3)
    modern = {"group_protocol": "consumer"}
    cluster.consumer("modern-a", "modern", ["modern"], **modern)
    two = cluster.consumer("modern-b", "modern", ["modern"], **modern)
    three = cluster.consumer("modern-c", "modern", ["modern"], group_instance_id="c", **modern)
    two.close()
    three.close()
    three = cluster.consumer("modern-c", "modern", ["modern"], group_instance_id="c", **modern)
    four = cluster.consumer("modern-d", "modern", ["modern"], **modern)
    four.kill()
    wait_s(SESSION_S + 3)


@accident(
    ("transaction-timed-out", "producer open-tx"),
    may=(("producer-fenced", "producer open-tx"), ("lso-held-back", "*")),
)
def transaction_left_open(cluster: RealCluster) -> None:
    """An application hangs within a transaction, which times out; a reader waits for it."""
    cluster.topic("opened", partitions=1)
    ids = {"transactional_id": "open-tx", "transaction_timeout_ms": 5_000}
    writer = cluster.client("transact", "open-writer", ["opened"], **ids)
    writer.await_count("committed", 2)
    cluster.consumer("open-reader", "opened", ["opened"], isolation_level="read_committed")
    cluster.client("produce", "open-other", ["opened"]).await_count("acked", 1)
    writer.hang()
    writer.await_("open")
    wait_s(10)
    writer.hang()
    wait_until(lambda: writer.count("failed"), "it is not refused", PATIENCE_S)


@accident(("producer-fenced", "producer zombie-tx"))
def zombie_fenced(cluster: RealCluster) -> None:
    """A producer is frozen, another one with its transactional.id starts, and the first returns."""
    cluster.topic("zombies")
    one = cluster.client("transact", "zombie-one", ["zombies"], transactional_id="zombie-tx")
    one.await_count("committed", 2)
    one.freeze(True)
    two = cluster.client("transact", "zombie-two", ["zombies"], transactional_id="zombie-tx")
    two.await_count("committed", 2)
    one.freeze(False)
    one.await_count("failed", 1)


@accident(may=(("offset-back", "group copying"),))
def offsets_in_transactions(cluster: RealCluster) -> None:
    cluster.topic("source", partitions=1)
    cluster.topic("target", partitions=1)
    cluster.client("produce", "copy-feeder", ["source"]).await_count("acked", 1)
    config = {"group_id": "copying", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    copier = cluster.client("copy", "copier-tx", ["source"], {"to": "target"}, **config)
    copier.await_count("aborted", 3)


@accident(may=(*BROKER_GONE, ("under-min-isr", "*")))
def broker_killed(cluster: RealCluster) -> None:
    """A broker is killed under load, and returns; one topic needs all three replicas."""
    cluster.topic("strict", min_insync_replicas="3")
    cluster.topic("loose")
    config = {"enable_idempotence": True}
    strict = cluster.client("produce", "strict-writer", ["strict"], **config)
    loose = cluster.client("produce", "loose-writer", ["loose"], **config)
    cluster.consumer("loose-reader", "loose", ["loose"])
    loose.await_count("acked", 2)
    strict.await_count("acked", 2)
    cluster.kill(3)
    wait_s(12)
    cluster.start(3)
    wait_s(2)


@accident(may=BROKER_GONE)
def broker_frozen(cluster: RealCluster) -> None:
    """A broker is frozen until it is fenced, and goes on."""
    cluster.topic("frozen")
    writer = cluster.client("produce", "frozen-writer", ["frozen"])
    writer.await_count("acked", 2)
    cluster.freeze(2, True)
    wait_s(12)
    cluster.freeze(2, False)
    cluster.await_in_sync()
    wait_s(2)


@accident(("offset-back", "group resets"), may=(("refused", "OFFSET_DELETE *"),))
def offsets_reset_and_deleted(cluster: RealCluster) -> None:
    """Offsets of a group without members are reset, deleted with the group, and committed anew."""
    cluster.topic("resets", partitions=1)
    cluster.client("produce", "reset-feeder", ["resets"]).await_count("acked", 2)
    reader = cluster.consumer("reset-reader", "resets", ["resets"])
    wait_s(3)
    reader.close()

    def commit(offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions("resets", [TopicPartition("resets", 0, offset)])
        cluster.admin.alter_consumer_group_offsets([wanted])["resets"].result(PATIENCE_S)

    commit(5)
    cluster.admin.delete_consumer_groups(["resets"])["resets"].result(PATIENCE_S)
    commit(2)


@accident(may=(("refused", "*"),))
def topic_made_again(cluster: RealCluster) -> None:
    cluster.topic("remade", partitions=1)
    writer = cluster.client("produce", "remade-writer", ["remade"])
    writer.await_count("acked", 1)
    reader = cluster.consumer("remade-reader", "remade", ["remade"])
    wait_s(3)
    writer.close()
    cluster.admin.delete_topics(["remade"])["remade"].result(PATIENCE_S)
    cluster.topic("remade", partitions=1)
    cluster.client("produce", "remade-writer", ["remade"]).await_count("acked", 1)
    wait_s(4)
    reader.close()


@accident(may=(("refused", "FETCH OFFSET_OUT_OF_RANGE"),))
def records_deleted(cluster: RealCluster) -> None:
    """An administrator deletes records that a stopped consumer has not read."""
    cluster.topic("trimmed", partitions=1)
    writer = cluster.client("produce", "trimmed-writer", ["trimmed"])
    writer.await_count("acked", 2)
    reader = cluster.consumer("trimmed-reader", "trimmed", ["trimmed"])
    wait_s(3)
    reader.close()
    wait_s(2)
    writer.close()
    end = [TopicPartition("trimmed", 0, -1)]
    for each in cluster.admin.delete_records(end).values():
        each.result(PATIENCE_S)
    cluster.consumer("trimmed-reader", "trimmed", ["trimmed"])
    wait_s(2)


@accident(("refused", "*"))
def denied(cluster: RealCluster) -> None:
    """A topic is denied to all for some time."""
    cluster.topic("denied")
    cluster.topic("denied-else")
    writer = cluster.client("produce", "denied-writer", ["denied"])
    writer.await_count("acked", 1)
    deny = AclBinding(
        ResourceType.TOPIC,
        "denied-else",
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    for each in cluster.admin.create_acls([deny]).values():
        each.result(PATIENCE_S)
    cluster.client("produce", "denied-other", ["denied-else"]).await_count("refused", 1)
    gone = AclBindingFilter(
        ResourceType.TOPIC,
        "denied-else",
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for removed in cluster.admin.delete_acls([gone]).values():
        removed.result(PATIENCE_S)


@accident(("records-redelivered", "*"), ("records-archived", "*"))
def share_records_given_up(cluster: RealCluster) -> None:
    """A member of a share group releases each record, until the delivery limit is reached."""
    cluster.topic("shared", partitions=1)
    mode = {"share_acknowledgement_mode": "explicit"}
    member = cluster.client(
        "share", "sharer", ["shared"], {"releases": True}, group_id="shared-group", **mode
    )
    member.await_count("assigned", 1)
    wait_s(8)
    writer = cluster.client("produce", "share-feeder", ["shared"])
    writer.await_count("acked", 1)
    member.await_count("received", 1)
    writer.close()
    wait_s(6)
    member.close()


@accident(
    may=(("isr-shrunk", "*"), ("leader-changed", "*")),
    settings={"replica.fetch.wait.max.ms": "5000", "log.cleaner.backoff.ms": "15000"},
)
def clean(cluster: RealCluster) -> None:
    """Ten minutes of clients with default times, and two rolling restarts."""
    cluster.topic("orders", partitions=3)
    cluster.topic("payments", partitions=2)
    cluster.topic("quiet", partitions=1)
    cluster.topic(
        "profiles",
        partitions=1,
        cleanup_policy="compact",
        segment_ms="20000",
        min_cleanable_dirty_ratio="0.01",
    )
    once, seldom = {"pause_s": 1.5}, {"pause_s": 2.0, "keys": 5}
    lasting = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 3_000}
    shared = {"auto_commit_interval_ms": 5_000, "fetch_wait_max_ms": 4_000}
    modern = {"group_protocol": "consumer", **shared}
    classic = {**lasting, **shared}
    cluster.client("produce", "orders-writer", ["orders"], once, enable_idempotence=True)
    cluster.client("produce", "profiles-writer", ["profiles"], seldom)
    paying = cluster.client(
        "transact", "payments-writer", ["payments"], {"pause_s": 4.0}, transactional_id="payments"
    )
    paying.await_count("committed", 1)
    cluster.consumer("orders-a", "orders-classic", ["orders"], **classic)
    cluster.consumer("orders-b", "orders-classic", ["orders"], group_instance_id="b", **classic)
    reads = {"isolation_level": "read_committed"}
    cluster.consumer("pay-a", "pay-modern", ["payments"], **reads, **modern)
    cluster.consumer("pay-b", "pay-modern", ["payments"], group_instance_id="b", **reads, **modern)
    cluster.consumer("idle-classic", "idle-classic", ["quiet"], **classic)
    cluster.consumer("idle-modern", "idle-modern", ["quiet"], **modern)
    mode = {"share_acknowledgement_mode": "explicit"}
    sharer = cluster.client("share", "sharer", ["orders"], group_id="orders-shared", **mode)
    sharer.await_count("assigned", 1)
    wait_s(45)
    for _ in range(2):
        for broker in (3, 2, 1):
            cluster.stop(broker)
            wait_s(5)
            cluster.start(broker)
            wait_s(60)
    wait_s(45)
