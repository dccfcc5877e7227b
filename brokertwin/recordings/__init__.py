"""Recorded traffic of real clusters: its formats, replay, explain and audit."""
