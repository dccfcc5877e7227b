"""Engines that process requests: a cell in this process, or a Spark job."""
