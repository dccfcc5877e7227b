"""Code that runs on Spark or reads its checkpoints."""
