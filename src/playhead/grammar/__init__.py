"""How people write values: times, durations, sizes, zones."""
