"""Who calls, what they may do, and what of it waits for a curator."""
