"""The commands on standby replays."""
