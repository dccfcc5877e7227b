"""What the leader of a classic group does with the members' subscriptions: who reads what.

group.py                what an assignor is given, in the order in which Java goes through it
range_assignor.py       range and roundrobin, which look at nothing but the subscriptions
sticky_assignor.py      sticky and cooperative-sticky, which keep what members own
general_sticky.py       their way where members subscribe to different topics
assign.py               the assignors by their names
owned.py                who owns what, where two claim it
member.py               what one member says, gives out and takes; Streams has its own
"""
