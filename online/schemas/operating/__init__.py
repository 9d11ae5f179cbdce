"""What those who operate a service read: its use, and its alerts."""
