"""The console script `brokertwin`; each command has its own file."""
