"""Hostile input: real bytes, changed at random, for everything that reads what others wrote.

`python -m tests.fuzz --inputs N` reads N of them. An input is wrong that raises what its reader
does not name, takes longer than a second of the processor, or more memory than there is for it.
"""
