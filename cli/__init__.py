"""The console script `brokerstream`, one small file for each command."""
