"""The act itself: a request becomes a plan, a plan is run, and the outcome is proved."""
