"""The tests, as a package so that `python -m tests.sim` finds its modules."""
