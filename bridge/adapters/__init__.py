"""The outside: each library is known to one module here, which keeps the promises of `bridge.core.ports`."""
