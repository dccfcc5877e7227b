"""Breaks of the clauses of tests/clauses/README.md."""
