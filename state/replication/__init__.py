"""Replication (docs/systems/replication.md): leaders, followers, in-sync replicas.

leader                 what a leader knows of its followers; the high watermark, the in-sync set
follower               how a follower takes what its leader answers
elections              who leads when brokers go or come back
eligible               who may lead without being in sync
reassignments          how a partition comes to other replicas
registrations          brokers at the controller: epochs, heartbeats, controlled shutdown
isr_controller         AlterPartition: its bodies, and what the controller refuses
in_sync                when a leader asks for it, and what it does with the answer
copying                the steps between them: a follower's fetch, the leader's answer
reading                what the leader reads for a follower, and what it refuses
throttles              how fast replicas that are not in sync may be copied
preferred_replica      which replica a consumer in a rack had better read
acks                   when a Produce that waits for in-sync replicas is answered
leader_and_isr         commands of a controller of the ZooKeeper era
fetchers, trace        the threads of followers; lines that brokers of Kafka 0.10 log
directories            log directories that fail: what the broker tells the controller
directory_bodies       the bodies in which it does
checkpoints, disk      what a broker's file has of high watermarks; log directories and their files
internal_logs          what coordinators write to __consumer_offsets and __transaction_state
cleaning               what is kept of that: the last record of each key
network                which brokers do not reach each other
check                  what must hold between replicas

Only `copying` writes what a leader knows, in place and without records: a broker that restarts
learns it anew. Logs change by records, on a follower as on a leader.
"""
