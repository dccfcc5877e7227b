"""Rules of `state/` that are broken on purpose, and the tests that have to notice.

table.py      the broken rules: what stands in the code, what stands there instead, who notices
__main__.py   breaks each in a copy and runs its tests: `make mutants`
"""
