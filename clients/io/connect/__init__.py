"""What Connect's workers do to the world: files, topics, a thread for each task."""
