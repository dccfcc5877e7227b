"""Kafka's settings: which there are, of what kind, what is valid, what a client is shown.

kafka_settings, setting_kinds   the brokers' settings of 4.3.1, and how they are told
topic_configs, config_keys      the topics' settings and their checks
codecs                          the codec that a topic asks for
broker_config, shown_configs    `--set` and `--broker-config`; DescribeConfigs' view
group_configs, client_metrics   the same of single groups, of subscriptions to client metrics
durations                       times to wait, as ISO 8601 and Java write them
dynamic_configs                 which settings of brokers change while they run, and what then holds
broker_checks                   what is asked of all of them together
connection_checks, listeners    of those of connections and classes, and of listeners
log_dirs                        log directories, and those that get no new logs

The tables of settings are Kafka 4.3.1's own, in its order: they change with Kafka's version alone.
"""
