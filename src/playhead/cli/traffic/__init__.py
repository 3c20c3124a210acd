"""The commands on captured traffic."""
