"""Alerts: notices what a person should know of, and sends it to webhooks."""
