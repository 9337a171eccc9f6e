"""The rules, pure: no input or output, no git, no clock, no logging. Imports the standard library and core only."""
