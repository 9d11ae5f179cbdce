"""The state folder: its layout, its keys, the audit log, bases, and the guard of roll-backs."""
