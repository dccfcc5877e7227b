"""Sockets, logins and record batches of the clients."""
