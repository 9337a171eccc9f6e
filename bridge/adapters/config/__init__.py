"""Settings and places: the only room that reads the environment, and files for settings (pyyaml, jsonschema)."""

from bridge.adapters.config.places import Places, locate
from bridge.adapters.config.settings import Consolidation, Metrics, Settings, agents, load, load_to_read, save
from bridge.adapters.config.tokens import token

__all__ = [
    "Consolidation",
    "Metrics",
    "Places",
    "Settings",
    "agents",
    "load",
    "load_to_read",
    "locate",
    "save",
    "token",
]
