"""Every number that Playhead promises, measured side by side with its baseline: `make bench`."""
