"""Exhaustive search over the orders of deliveries (`brokertwin explore`, docs/explore.md).

api             the parts of a model
clients         producers and group members for models; `requests` has the bodies
invariants      conditions on every state
mistakes        mistakes in a model as one line
machine         a cell that goes from state to state
world           the whole state of a model, and the steps that lead to the next ones
search          breadth first with reductions and worker processes; random walks
visited         fingerprints and frontiers, in memory and on disk
shown           a counterexample as a diagram
scripts         a counterexample as requests for a real broker, as a test and as a recording
reached         the functions of `state/` that a search has called
models          built-in models, and those of files
"""
