"""One machine for each kind of entity in recorded exchanges."""
