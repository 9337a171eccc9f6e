"""Hints from the operating system that working files changed (watchdog's binding to inotify).

A hint proves nothing and may be missing: truth is a look. So everything that makes hints incomplete, an overflow, a
limit, a folder that came and went, becomes a hint for what is above it or the hint None, "look at everything", and a
sentence in `problems`.

All souls of a process share one inotify instance, of which a user has 128 by default, and one thread (`reader`);
`folders` knows which folders of one soul are watched, `watching` is the port made of them. Of watchdog only the
binding is used: its observer opens an instance for each soul and runs eight threads for it (20 souls: 20 instances
and 160 threads, with 100 souls in one process 800), tells an overflow to its log only and a full table of watches to
nobody. The classes below its observer could be shared, but are not the same in any two of its versions 6, 7.0 and 7.1.
"""

from bridge.adapters.watch.watching import Watch

__all__ = ["Watch"]
