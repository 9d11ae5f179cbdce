"""Sums that devices have learned by themselves, as feedback: checks, admission, submission."""
