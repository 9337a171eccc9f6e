"""Settings and places: the only room that reads the environment, and files for settings (pyyaml, jsonschema)."""

from bridge.adapters.config.places import Places, locate
from bridge.adapters.config.settings import Consolidation, Settings, agents, load, save

__all__ = ["Consolidation", "Places", "Settings", "agents", "load", "locate", "save"]
