"""The console script `brokertwin`: a package for each family of commands, a file for each one."""
