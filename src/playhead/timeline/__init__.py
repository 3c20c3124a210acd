"""How many records lie where in time, as numbers, text and a picture."""
