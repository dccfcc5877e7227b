"""Facts from coordinators' rows of other clusters: offsets and share groups.

offset_history  changes of committed offsets, with the member that made them
offset_plan     effects of committing offsets to another cluster
share_progress  progress of share groups, from the rows of a real cluster

No module writes a table or makes decisions. Recorded requests are observed by `recordings/history`.
"""
