"""Commands that print the figures we claim, beside their targets; never part of the test run."""
