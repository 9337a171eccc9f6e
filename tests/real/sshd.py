"""A private OpenSSH server on loopback with git-shell behind it, as root or as an ordinary user."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from bridge.adapters.gitenv import clean_environment

PROGRAMS = ("git", "git-shell", "ssh", "ssh-keygen")
_CONFIGURATION = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {root}/host_key
PidFile none
AuthorizedKeysFile {root}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin forced-commands-only
AllowUsers {user}
PermitTTY no
PermitUserRC no
DisableForwarding yes
PrintMotd no
UseDNS no
MaxStartups 200
LogLevel VERBOSE
SetEnv GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL={root}/gitconfig HOME={root}
"""
_READ_ONLY = (
    'case "$SSH_ORIGINAL_COMMAND" in git-upload-pack*) exec git-shell -c "$SSH_ORIGINAL_COMMAND";; '
    "*) echo ERROR: The key you are authenticating with has been marked as read only. >&2; exit 1;; esac"
)


def missing() -> str:
    """The first program that is needed and not here, "" when all are."""
    return next((name for name in PROGRAMS if shutil.which(name) is None), "" if _sshd() else "sshd")


class Sshd:
    """Repositories below `root`/repos, readable and writable with the authorised keys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = getpass.getuser()
        (root / "repos").mkdir(parents=True)
        (root / "authorized_keys").touch()
        (root / "gitconfig").write_text("[safe]\n\tdirectory = *\n[receive]\n\tautogc = false\n")
        self._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / "host_key"))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> Sshd:
        """Serve; returns once a connection is accepted."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's own, missing in containers
        configuration = self.root / "sshd_config"
        configuration.write_text(_CONFIGURATION.format(port=self.port, root=self.root, user=self.user))
        with (self.root / "sshd.log").open("ab") as log:
            command = [_sshd(), "-D", "-e", "-f", str(configuration)]
            self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return self
        raise RuntimeError((self.root / "sshd.log").read_text())

    def stop(self) -> None:
        """End the server; open sessions go on, as with any sshd."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait()
            self._server = None

    def host_key_line(self) -> str:
        """The line that pins this host in a known_hosts file."""
        return f"[127.0.0.1]:{self.port} " + " ".join((self.root / "host_key.pub").read_text().split()[:2])

    def path(self, repo: str) -> Path:
        """Where a repository lies, and what it is called in an address."""
        return self.root / "repos" / repo

    def create(self, repo: str) -> Path:
        """Make an empty bare repository."""
        self._run("git", "init", "-q", "--bare", "-b", "main", str(self.path(repo)))
        return self.path(repo)

    def authorize(self, repo: str, public_line: str, write: bool = True) -> None:
        """Let a key in, from the next login on. It opens every repository here: git-shell knows no more."""
        self.revoke(repo, public_line)
        allowed = 'git-shell -c "$SSH_ORIGINAL_COMMAND"' if write else _READ_ONLY
        escaped = allowed.replace('"', '\\"')
        with (self.root / "authorized_keys").open("a") as file:
            file.write(f'command="{escaped}",restrict {public_line}\n')

    def revoke(self, repo: str, public_line: str) -> None:
        """Keep a key out, from the next login on."""
        blob = public_line.split()[1]
        keys = self.root / "authorized_keys"
        keys.write_text("".join(line + "\n" for line in keys.read_text().splitlines() if blob not in line))

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, env={**clean_environment(), "HOME": str(self.root)})


def _sshd() -> str:
    """sshd's absolute path: it starts itself again for every connection."""
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or ""
