"""A machine's view of its cluster (docs/systems/metadata.md).

machines, image                 brokers, the controller, and their metadata images
topics                          names, ids and placement of topics
internal_topics, coordinators   internal topics; coordinators of groups and transactional ids
config_changes                  AlterConfigs of topics, brokers, groups and client metrics
given_configs                   items of dynamic settings
broker_configs, group_configs   dynamic settings of brokers; settings of groups
retention_limits                a topic's retention, cleaning and rolling settings
features                        supported and finalized levels of features
failed_dirs                     log directories that failed while their broker ran
metadata_log                    the end offset of the controller's log
client_instances                client instances with their metrics subscriptions
client_quotas, quota_rates      quotas by user and client id; rates and throttle times
mutation_quota                  the quota for creating and deleting partitions

Handlers read an image with its leaders and in-sync sets. Only the controller's records change it.
"""
