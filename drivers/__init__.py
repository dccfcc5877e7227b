"""What moves the bytes of our own clients: sockets and record batches."""
