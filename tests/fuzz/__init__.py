"""Gives every parser that a file, a line of a shell or the wire reaches what nobody meant to write.

`python -m tests.fuzz --seconds 60 [--seed N] [--only NAME]` is a process of its own, so that one that is
killed by a signal is seen. What is tried is a function of seed, parser and number alone.
"""
