"""I/O of Connect workers: files, topics, and a thread for each task."""
