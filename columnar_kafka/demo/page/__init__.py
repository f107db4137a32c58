"""The demo's page."""
