"""Kafka's settings: names, types, validation, and DescribeConfigs.

kafka_settings, setting_kinds   broker settings of 4.3.1; which are internal, dynamic, and so on
topic_configs, config_keys      topic settings; types and validation
codecs                          `compression.type` of a topic
broker_config, shown_configs    `--set` and `--broker-config`; DescribeConfigs
group_configs, client_metrics   settings of groups and of client metrics subscriptions
durations                       ISO 8601 durations, as Java parses them
dynamic_configs                 dynamic broker settings: validation and precedence
broker_checks                   validation of all settings of a broker
connection_checks, listeners    validation of connections, classes and listeners
log_dirs                        log directories, and cordoned ones

The tables of settings are those of Kafka 4.3.1 in its order, and change with Kafka's version only.
"""
