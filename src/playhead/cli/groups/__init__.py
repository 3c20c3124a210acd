"""The commands on consumer groups."""
