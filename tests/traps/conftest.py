"""Each of these tests begins with two bodies that carry one soul."""

from tests.real.pair import fleet, host, laptop, server, template

__all__ = ["fleet", "host", "laptop", "server", "template"]
