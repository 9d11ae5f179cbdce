"""Feedback: checks, events, retraction, erasure, quarantine, slots."""
