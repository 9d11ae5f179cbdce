"""The state folder: its layout, its keys, the audit log, bases, the guard of roll-backs, and what devices report."""
