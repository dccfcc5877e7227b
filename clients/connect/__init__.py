"""Connect's workers: who runs which connector and which task, and where they have got to.

work.py                    connectors and tasks
connect_protocol.py        what workers say and get, as bytes
eager_assignor.py          all is dealt out anew
cooperative_assignor.py    what runs stays, what is lost waits (KIP-415)
leader.py                  what the group's leader does with the others' words
"""
