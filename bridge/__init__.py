"""soul-bridge: keeps one agent's soul repository in step between its bodies."""

__version__ = "0.1.0"
