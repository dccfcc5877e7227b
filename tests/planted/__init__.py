"""Rules of `state/` and of clients broken on purpose, which the simulator has to find."""
