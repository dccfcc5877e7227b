#!/bin/sh
# A thousand records, and a group of two members that reads them:  examples/consumer_group.sh HOST:PORT TOPIC
set -e
seq 1000 | brokertwin produce "$2" --bootstrap "$1"
brokertwin consume "$2" --group "$2-readers" --from-beginning --members 2 --timeout 2 \
    --show-threads --bootstrap "$1" | sort -n | tail -1
