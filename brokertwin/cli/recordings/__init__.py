"""Commands that read recorded traffic."""
