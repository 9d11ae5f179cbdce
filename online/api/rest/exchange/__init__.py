"""Routes for other devices: what they answer, encode and learn with, and how cohorts add up their sums."""
