"""In-memory twins of the ports: they pass the contract tests of the adapters and carry the simulator."""
