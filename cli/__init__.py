"""The console script `brokertwin`, one small file for each command."""
