"""Installing, step by step, over a service manager that does as it is told; and every refusal says what to type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bridge.app import service, units
from bridge.app.service import Service
from bridge.app.units import Site
from bridge.core.errors import Refused, SoulError, Transient
from bridge.fakes.clock import FakeClock

BEFORE, SINCE, AFTER = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z", "2026-01-01T00:00:02.000Z"


@dataclass
class Manager:
    """A service manager in memory. code: what the program exits with at its start, in order; the last one for ever."""

    system: bool = False
    codes: list[str] = field(default_factory=lambda: ["0"])
    complaints: str = ""
    calls: list[str] = field(default_factory=list)
    enabled: bool = False
    active: bool = False
    code: str = "0"

    @property
    def scope(self) -> str:
        return "--system" if self.system else "--user"

    def unit_paths(self) -> list[Path]:
        return []

    def verify(self, unit: Path, drop_in: Path) -> str:
        assert unit.read_text()
        assert drop_in.read_text()
        return self.complaints

    def reload(self) -> None:
        self.calls.append("reload")

    def enable(self, unit: str) -> None:
        self.calls.append("enable")
        self.enabled = True

    def restart(self, unit: str) -> None:
        self.calls.append("restart")
        self.code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        self.active = self.code == "0"
        if not self.active:
            raise Refused("Job failed")

    def disable(self, unit: str) -> None:
        self.calls.append("disable")
        self.enabled = self.active = False

    def show(self, unit: str, *names: str) -> Mapping[str, str]:
        known = {
            "ActiveState": "active" if self.active else "failed",
            "SubState": "running" if self.active else "failed",
            "UnitFileState": "enabled" if self.enabled else "",
            "MainPID": "42" if self.active else "0",
            "ExecMainStatus": self.code,
            "Result": "exit-code",
        }
        return {name: known.get(name, "") for name in names}


def document(**more: Any) -> dict[str, Any]:
    passed = {"at": AFTER, "outcome": "ok", "sentence": "nothing to do."}
    return {"state": "idle", "daemon": {"pid": 42, "since": SINCE}, "last_pass": passed, "problem": None, **more}


def made(tmp_path: Path, manager: Manager, status: Callable[[], Any] = document, site: Site | None = None) -> Service:
    site = site or Site("kaoru", ("/usr/bin/soul-bridge",), (Path("/srv/souls"),))
    return Service(manager, site, tmp_path / "units", status, FakeClock())


def test_everything_is_done_in_order_and_once(tmp_path: Path) -> None:
    manager = Manager()
    one = made(tmp_path, manager)
    done = one.install()
    assert manager.calls == ["reload", "enable", "restart"]
    assert [sentence.split()[0] for sentence in done.did] == ["wrote", "wrote", "enabled", "started"]
    assert one.is_current()
    assert one.install().did == []
    assert manager.calls == ["reload", "enable", "restart", "reload"]


def test_what_systemd_does_not_like_is_not_written(tmp_path: Path) -> None:
    manager = Manager(complaints="soul-bridge@kaoru.service: Unknown key")
    with pytest.raises(Refused, match="Unknown key"):
        made(tmp_path, manager).install()
    assert not (tmp_path / "units").exists()
    assert manager.calls == []


@pytest.mark.parametrize(
    "early",
    [
        None,
        document(last_pass=None),
        document(last_pass={"at": BEFORE, "outcome": "ok", "sentence": "of the one before"}),
        document(daemon={"pid": 41, "since": SINCE}),
        document(daemon={"pid": None, "since": None}),
    ],
)
def test_it_is_not_done_before_a_pass_of_the_started_program_was_seen(tmp_path: Path, early: Any) -> None:
    with pytest.raises(Transient, match="no whole pass within 90 s") as caught:
        made(tmp_path, Manager(), lambda: early).install()
    assert caught.value.advice == "soul-bridge status kaoru"
    answers = [early, early, document()]
    done = made(tmp_path, Manager(), lambda: answers.pop(0) if len(answers) > 1 else answers[0]).install()
    assert done.document == document()


def test_a_paused_soul_makes_no_pass_and_is_installed_all_the_same(tmp_path: Path) -> None:
    done = made(tmp_path, Manager(), lambda: document(state="paused", last_pass=None)).install()
    assert done.document is not None


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        ("2", "config", "soul-bridge run kaoru shows why"),
        ("203", "rejected", "install the program where that user may read it"),
        ("1", "rejected", "journalctl --user -n 30 -u soul-bridge@kaoru.service"),
    ],
)
def test_a_program_that_ends_at_once_is_told_with_what_to_type(
    tmp_path: Path, code: str, kind: str, advice: str
) -> None:
    with pytest.raises(SoulError) as caught:
        made(tmp_path, Manager(codes=[code])).install()
    assert caught.value.kind == kind
    assert advice in caught.value.advice


def test_a_program_that_ends_after_it_was_ready_is_told_too(tmp_path: Path) -> None:
    manager = Manager()

    def status() -> None:
        manager.active, manager.code = False, "1"

    with pytest.raises(Refused, match="ended again"):
        made(tmp_path, manager, status).install()


def test_a_machine_that_lets_no_user_make_namespaces_runs_it_without(tmp_path: Path) -> None:
    manager = Manager(codes=["226", "0"])
    one = made(tmp_path, manager)
    done = one.install()
    assert done.confined is False
    assert any("without that confinement" in sentence for sentence in done.did)
    assert "PrivateUsers=no" in one.drop_in.read_text()
    assert one.is_current()
    again = one.install()
    assert (again.did, again.confined) == ([], False), "it is not tried again every time"


def test_for_the_whole_machine_nothing_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        made(tmp_path, Manager(system=True, codes=["226", "0"])).install()


def test_what_stood_in_the_way_of_the_pass_is_the_answer(tmp_path: Path) -> None:
    problem = {"kind": "auth", "message": "not authorised", "advice": "add the key", "since": None, "next_try": None}
    done = made(tmp_path, Manager(), lambda: document(problem=problem)).install()
    error = service.problem_of(done.document or {})
    assert error is not None
    assert (error.exit_code, error.message, error.advice) == (4, "not authorised", "add the key")


def test_uninstalling_one_soul_leaves_the_unit_of_the_others(tmp_path: Path) -> None:
    manager = Manager()
    one = made(tmp_path, manager)
    other = made(tmp_path, manager, site=Site("mei", ("/usr/bin/soul-bridge",), ()))
    one.install()
    other.install()
    assert one.uninstall() == [one.drop_in]
    assert one.template.exists()
    assert other.uninstall() == [other.drop_in, one.template]
    assert list((tmp_path / "units").iterdir()) == []
    assert other.uninstall() == []


def test_settings_of_a_person_are_left_alone(tmp_path: Path) -> None:
    one = made(tmp_path, Manager())
    one.install()
    own = one.drop_in.with_name("own.conf")
    own.write_text("[Service]\nNice=5\n")
    one.uninstall()
    assert own.read_text() == "[Service]\nNice=5\n"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "units").write_text("a file")
    with pytest.raises(Transient, match="cannot be written") as caught:
        made(tmp_path, Manager()).install()
    assert caught.value.advice.startswith("ls -ld")


def test_the_shipped_templates_are_the_ones_that_are_installed() -> None:
    root = Path(__file__).parents[2] / "systemd"
    assert units.template(system=False) == (root / "soul-bridge@.service").read_text()
    assert units.template(system=True) == (root / "system" / "soul-bridge@.service").read_text()
