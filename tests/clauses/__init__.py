"""Breaks of the clauses of docs/seeds.md."""
