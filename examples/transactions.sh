#!/bin/sh
# A loader dies within a transaction, its successor aborts that:  examples/transactions.sh HOST:PORT TOPIC
set -e
kafka=$1 topic=$2
set -- "$topic" --transactional-id "$topic-loader" --bootstrap "$kafka"
read_as() { group=$1; shift; brokertwin consume "$topic" --group "$topic-$group" --from-beginning --bootstrap "$kafka" "$@"; }

seq 1 4 | brokertwin produce "$@"
lines=$(mktemp -u) && mkfifo "$lines"
brokertwin produce "$@" < "$lines" &
exec 3> "$lines" # sends three lines, and waits for more
seq 5 7 >&3
read_as watch -n 7 > /dev/null # all seven are in the topic
kill -9 $!
exec 3>&- && rm "$lines"
seq 5 10 | brokertwin produce "$@" # whoever comes with the id begins where the last commit was

all=$(read_as all --timeout 2 | wc -l)
committed=$(read_as committed --read-committed --timeout 2 | wc -l)
echo "$all records in the topic, $committed of them committed"
