"""Client-side assignment in classic groups.

group.py            inputs of an assignor, in Java's iteration order
sticky_assignor.py  sticky and cooperative-sticky
general_sticky.py   the same if members subscribe to different topics
assign.py           the assignors by name
owned.py            ownership claims and their conflicts
member.py           the assignor interface of one member; Streams has its own
"""
