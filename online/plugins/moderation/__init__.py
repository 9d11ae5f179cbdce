"""Moderation: feedback of callers that are not trusted is limited, held, and decided by others and by curators."""
