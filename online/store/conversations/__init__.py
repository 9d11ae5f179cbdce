"""Conversations of users with a ranker: their list, their turns and branches, and those that are shared."""
