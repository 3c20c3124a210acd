"""This machine: files, folders, locks, processes, clocks, networks."""
