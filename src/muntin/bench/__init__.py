"""Measurements of the engine on this machine."""
