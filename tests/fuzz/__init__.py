"""Hostile input: real bytes, changed at random, for every reader of foreign data.

`python -m tests.fuzz --inputs N` reads N of them. An input is wrong that raises what its reader
does not name, takes longer than a second of the processor, or more memory than there is for it.
"""
