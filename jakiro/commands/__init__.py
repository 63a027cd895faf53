"""The command line's arguments, and the commands that are too long for __main__."""
