"""Rules of `state/` that are broken on purpose, and the tests that have to notice.

table.py      the broken rules: what stands in the code, what stands there instead, who notices
commits.py    those of what coordinators write to internal topics
cells.py      those of cells that talk to each other
__main__.py   breaks each in a copy and runs its tests: `make mutants`
"""
