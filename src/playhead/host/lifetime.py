"""How long this process lives: until its one command has ended, or as long as a program of the user's wants."""

is_of_one_command = False
"""Set by the command line, before a command begins."""
