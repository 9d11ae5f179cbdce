"""Alerts for webhooks: what was last noticed, the alerts that follow from it, and their deliveries."""
