"""Devices other than the host: which one is meant, and how arrays get there."""
