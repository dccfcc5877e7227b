#!/bin/sh
# A group whose broker assigns (KIP-848, Kafka 4.0 and later):  examples/modern_group.sh HOST:PORT TOPIC
set -e
seq 1000 | brokertwin produce "$2" --bootstrap "$1"
brokertwin consume "$2" --group "$2-modern" --protocol consumer --from-beginning --members 2 --timeout 2 \
    --show-threads --bootstrap "$1" | sort -n | tail -1
