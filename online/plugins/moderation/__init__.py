"""Moderation: what curators look at, and what they decide about it."""
