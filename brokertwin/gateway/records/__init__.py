"""Record batches: validation, compression, storage and cleaning."""
