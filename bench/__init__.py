"""How fast, how heavy and how steady soul-bridge is, beside what a person would use instead. See bench/README.md."""
