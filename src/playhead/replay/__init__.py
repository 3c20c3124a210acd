"""The replay itself: make a plan of a request, run the plan, prove the result."""
