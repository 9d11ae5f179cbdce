"""Feedback: checks, review, recording as events, outcomes, retraction, quarantine, slots, and sums of devices."""
