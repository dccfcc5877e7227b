"""Why a broker answered as it did, told from a recording: nothing is decided again.

bodies       what requests and answers say of producers
producers    the walk over a recording: epochs and who holds them, batches, and what errors come of
epochs       which responses gave epochs, and which transactions the coordinator aborted
own_clients  which requests a broker made, and no client
transactions the same for a transactional id: what each transaction took in, how it ended
partitions   the same for a partition: leaders, in-sync sets, high watermarks, producers
partition_parts  what of a body is about one partition
groups       the same for a consumer group: rebalances and who began them, offsets that go back
sessions     the same for a fetch session: who opened it, and how it ended
exchange     one exchange, as the stories that it is part of tell it
stored       what a checkpoint knows of the same, without a story
rules        a folder: what each error means, where the rule is from, what the client should do
error_pages  the page of an error, made of that
story        one entry of the timeline, as a document and as lines
"""
