"""The coordination half of a Kafka broker as a Spark Structured Streaming job.

This package imports nothing: `brokertwin.state` and `brokertwin.clients` run with only msgspec
installed.
"""

__version__ = "0.1.0"
