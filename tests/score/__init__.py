"""The score of statements about a cluster against known truth."""
