"""The checkout's git directory, with pygit2 for packs and our own hands for the rest.

Nothing of the checkout is obeyed, because nothing that could obey it is asked: libgit2 sees packs only and opens no
repository, no configuration, hook, filter, replace ref, graft or alternate is read, and git children see a private
git directory (`bridge.adapters.gitenv`). Files whose meaning would be lost by that (alternates, shallow, sha256,
reftable, a linked worktree) are refused with a clear sentence.

Rules: AUTH-7.
"""

from bridge.adapters.repo.checkout import Repo
from bridge.adapters.repo.maintenance import counts

__all__ = ["Repo", "counts"]
