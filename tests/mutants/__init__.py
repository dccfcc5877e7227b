"""Rules of `state/` and of the audit that are broken on purpose, and the tests that have to notice.

table.py      the broken rules: what stands in the code, what stands there instead, who notices
commits.py    those of what coordinators write to internal topics
cells.py      those of cells that talk to each other
deletions.py  those of internal topics that are deleted
waits.py      those of answers that wait until something is committed
consumers.py  those of consumers, in `clients/`
producers.py  those of producers, there
audits.py     those of `streaming/audit`
__main__.py   breaks each in a copy and runs its tests: `make mutants`
"""
