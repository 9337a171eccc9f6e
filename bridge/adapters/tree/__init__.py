"""The working files of one checkout: looking at them, and replacing them so that no byte an agent wrote is lost.

`place` opens the way to a path without following links, `ignore` reads `.gitignore`, `look` sees what is there,
`exchange` holds the system calls, `out` keeps what left its name, and `working` is the port made of them.

Rules: GUARD-4.
"""

from bridge.adapters.tree.exchange import prepare_process
from bridge.adapters.tree.working import Tree

__all__ = ["Tree", "prepare_process"]
