"""Commands for a job: run it, read its state, check it."""
