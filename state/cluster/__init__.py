"""What a machine knows of its cluster (docs/systems/metadata.md).

machines, image                 a broker and the controller, and their metadata images
topics, new_topics              names, ids and placement of topics; the body that asks for them
internal_topics, coordinators   `__consumer_offsets` and its kin, and who coordinates what
config_changes                  settings of topics and brokers that are altered
given_configs                   the items of the two below, and of client metrics
broker_configs                  those that brokers were given while they run
group_configs                   those that single groups were given
topic_rules                     what a topic asks of what is appended to it
retention_limits                how much of a topic's logs stays
features                        what the cluster can do, and at which levels it does
failed_dirs                     log directories that have failed while their broker ran
metadata_log                    how many records the controller has written
client_instances                clients that have asked which metrics are wanted of them
client_quotas, quota_rates      quotas by user and client id, and what they throttle
mutation_quota                  how fast clients may create and delete partitions

Handlers read an image and its leaders, ISR included; only the controller's records change it.
"""
