"""Replication (docs/systems/replication.md): leaders, followers, in-sync replicas.

leader                 a leader's view of its followers: high watermark, in-sync set
follower               how a follower handles a fetch response
copying                the protocol between them: fetches, responses, timers
reading                what a leader reads for a follower, and its errors
fetchers               fetcher threads: id and name
in_sync                when a leader sends AlterPartition, and how it handles the response
isr_controller         AlterPartition: bodies and the controller's checks
elections              leader elections by the controller
eligible               eligible leader replicas (ELR)
reassignments          partition reassignments
registrations          brokers at the controller: epochs, heartbeats, controlled shutdown
throttles              replication quotas
preferred_replica      fetching from the closest replica
acks, produce_bodies   acks=all; the bodies of Produce
directories            failed log directories
directory_bodies       AssignReplicasToDirs and BrokerHeartbeat
checkpoints, disk      high watermark checkpoints; log directories and their files
internal_logs          the logs of __consumer_offsets, __transaction_state, __share_group_state
cleaning               compaction of those logs
network                stopped and unreachable brokers
check                  invariants between replicas

A leader's view of its followers is volatile: `copying` changes it in place, without records, and a
restarted broker starts without it. Logs change by records, on followers, too.
"""
