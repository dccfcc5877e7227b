"""Admin requests and settings that the gateway handles itself."""
