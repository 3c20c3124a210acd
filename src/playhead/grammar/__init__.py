"""The grammars of values that users write: times, durations, sizes, zones."""
