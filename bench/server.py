"""The git host: a private OpenSSH server with git-shell behind it, whose account is called `git`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from bench.measure import NotSeen, run, until
from bench.network import Network

_CONFIGURATION = """\
Port {port}
ListenAddress {address}
HostKey {root}/host_key
PidFile none
AuthorizedKeysFile {root}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin forced-commands-only
AllowUsers git
PermitTTY no
PermitUserRC no
DisableForwarding yes
PrintMotd no
UseDNS no
MaxStartups 500
MaxSessions 100
LogLevel ERROR
SetEnv GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL={root}/gitconfig HOME={root}
"""
_GITCONFIG = """\
[safe]
\tdirectory = *
[receive]
\tautogc = false
[core]
\tlogAllRefUpdates = always
[user]
\tname = host
\temail = host@invalid
"""
SHELLS = {"git": "git-shell", "annex": "git-annex-shell"}


class Server:
    """Repositories over SSH. It needs root: an account `git` is laid over the accounts in a mount namespace."""

    def __init__(self, root: Path, network: Network) -> None:
        self.root = root
        self.network = network
        if os.geteuid() != 0 or _sshd() == "" or shutil.which("unshare") is None:
            raise NotSeen("the benchmarks need root (an account `git` in a namespace) and openssh-server")
        (root / "repos").mkdir(parents=True)
        (root / "authorized_keys").touch()
        (root / "commands").touch()
        (root / "gitconfig").write_text(_GITCONFIG)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / "host_key"))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._server = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        configuration = self.root / "sshd_config"
        configuration.write_text(_CONFIGURATION.format(port=self.port, root=self.root, address=self.network.address))
        beside = ["unshare", "-m", "sh", "-c", f'mount --bind {self._accounts()} /etc && exec "$@"', "sh"]
        command = [
            "setpriv",
            "--pdeathsig",
            "TERM",
            *self.network.beyond,
            *beside,
            _sshd(),
            "-D",
            "-e",
            "-f",
            str(configuration),
        ]
        with (self.root / "sshd.log").open("ab") as log:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.network.call(lambda: until(self._accepts, "sshd accepts connections", 10, 0.05))
        return server

    def _accounts(self) -> Path:
        """What stands for /etc: a file alone would go when somebody renames a new one over the real one."""
        place = self.root / "etc"
        place.mkdir()
        for name in ("group", "nsswitch.conf", "ld.so.cache", "hosts", "localtime"):
            if Path("/etc", name).is_file():
                shutil.copy(Path("/etc", name), place / name)
        # The first of a name counts: the machine may have an account `git` of its own.
        (place / "passwd").write_text(f"git:x:0:0::{self.root}:/bin/sh\n" + Path("/etc/passwd").read_text())
        return place

    def close(self) -> None:
        """End it and every session."""
        self._server.terminate()
        self._server.wait()

    def path(self, repo: str) -> Path:
        """Where a repository lies."""
        return self.root / "repos" / repo

    def address(self, repo: str) -> str:
        """What to write as `remote`."""
        return f"ssh://git@{self.network.address}:{self.port}{self.path(repo)}"

    def fingerprint(self) -> str:
        """The host key's fingerprint, SHA256:…"""
        return run("ssh-keygen", "-lf", str(self.root / "host_key.pub")).split()[1]

    def known_hosts(self) -> Path:
        """A file that pins this host, for the ssh program."""
        path = self.root / "known_hosts"
        line = " ".join((self.root / "host_key.pub").read_text().split()[:2])
        path.write_text(f"[{self.network.address}]:{self.port} {line}\n")
        return path

    def create(self, repo: str) -> Path:
        """Make an empty bare repository."""
        run("git", "init", "-q", "--bare", "-b", "main", str(self.path(repo)))
        run("git", "config", "core.logAllRefUpdates", "always", at=self.path(repo))
        return self.path(repo)

    def authorize(self, public_line: str, host: str = "git") -> None:
        """Let a key in, from the next login on; what it asks for is counted."""
        command = f'echo "$SSH_ORIGINAL_COMMAND" >>{self.root}/commands; exec {SHELLS[host]} -c "$SSH_ORIGINAL_COMMAND"'
        escaped = command.replace('"', '\\"')
        with (self.root / "authorized_keys").open("a") as file:
            file.write(f'command="{escaped}",restrict {public_line}\n')

    def asked(self, service: str) -> int:
        """How often a service was asked for so far."""
        return (self.root / "commands").read_text().count(service)

    def pushes(self, repo: str) -> int:
        """How many pushes this repository has taken."""
        try:
            return len((self.path(repo) / "logs" / "refs" / "heads" / "main").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def _accepts(self) -> bool:
        try:
            socket.create_connection((self.network.address, self.port), 1).close()
        except OSError:
            return False
        return True


def _sshd() -> str:
    """sshd's absolute path: it starts itself again for every connection."""
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or ""
