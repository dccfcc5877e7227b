"""What a broker tells the controller of its log directories: two requests' bodies.

Their handlers are in `state/apis/broker_heartbeat.py` and `assign_replicas_to_dirs.py`.
"""

ASSIGN_KEY, HEARTBEAT_KEY = 73, 63
