"""Watches the live version: learning curve, live monitor, shadow."""
