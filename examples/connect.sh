#!/bin/sh
# A file through a topic into a file, on three workers:  examples/connect.sh HOST:PORT
set -e
here=$(cd "$(dirname "$0")/connect" && pwd)
cd "$(mktemp -d)"
seq 1000 > README.md
brokertwin connect --worker distributed --workers 3 "$here"/*.properties --timeout 2 \
    --show-threads --bootstrap "$1"
sort -n copy.txt | tail -1
