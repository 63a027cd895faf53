"""The command line's arguments, and what its commands do."""
