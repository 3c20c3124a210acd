"""Records of a log: reading, looking up times, explaining absent offsets."""
