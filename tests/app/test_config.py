"""Settings are what was written, and every mistake in them is told at once, where it stands."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from bridge.adapters import config
from bridge.adapters.config import Consolidation, Metrics, Places, Settings
from bridge.adapters.config.settings import duration, octets, seconds, size
from bridge.core.errors import Unusable

FULL = """\
agent: kaoru
body: laptop
soul: ~/souls/kaoru.soul
remote: git@github.com:me/kaoru.soul.git
key: ~/.config/soul-bridge/keys/kaoru.laptop
settle: 250ms
poll: 1m
heartbeat: 12h
guard: 0s
hold_back_over: 20MiB
consolidation:
  schedule: "0  4 * * *"
  command: [my-agent, dream]
hooks:
  synced: [notify-send, "soul synced"]
"""
LEAST = "agent: kaoru\nbody: laptop\nsoul: /souls/k\nremote: git@github.com:me/kaoru.soul.git\n"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path), "HOME": "/home/kaoru"})
    found.config.mkdir()
    return found


def write(places: Places, text: str | bytes, agent: str = "kaoru") -> Path:
    path = places.config_file(agent)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(0o600)
    return path


def problems(places: Places, text: str | bytes) -> list[str]:
    """What is told about a text, each as line:column: words."""
    path = write(places, text)
    with pytest.raises(Unusable) as caught:
        config.load(places, "kaoru")
    assert caught.value.kind == "config"
    assert caught.value.exit_code == 2
    return [line.removeprefix(f"{path}:") for line in caught.value.message.splitlines()[1:]]


def test_every_key_is_read_with_its_unit(places: Places) -> None:
    write(places, FULL)
    assert config.load(places, "kaoru") == Settings(
        agent="kaoru",
        body="laptop",
        soul=Path("/home/kaoru/souls/kaoru.soul"),
        remote="git@github.com:me/kaoru.soul.git",
        key=Path("/home/kaoru/.config/soul-bridge/keys/kaoru.laptop"),
        settle=0.25,
        poll=60.0,
        heartbeat=43200.0,
        guard=0.0,
        hold_back_over=20 * 1024 * 1024,
        consolidation=Consolidation("0 4 * * *", ("my-agent", "dream")),
        hooks={"synced": ("notify-send", "soul synced")},
    )


def test_what_is_left_out_has_the_defaults_of_the_contract(places: Places) -> None:
    write(places, LEAST + "hooks:\nconsolidation:\nkey: ~\n")
    read = config.load(places, "kaoru")
    assert (read.settle, read.poll, read.heartbeat, read.guard) == (0.5, 30.0, 86400.0, 60.0)
    assert read.hold_back_over == 50 * 1024 * 1024
    assert read.key == places.keys / "kaoru.laptop"
    assert (read.consolidation, dict(read.hooks)) == (None, {})


def test_all_problems_are_told_at_once_each_with_its_line_and_column(places: Places) -> None:
    text = FULL.replace("settle: 250ms", "settel: 250ms").replace("poll: 1m", "poll: 30").replace("agent: kaoru\n", "")
    text = text.replace("[my-agent, dream]", "my-agent dream")
    assert problems(places, text) == [
        "1:1: agent is missing",
        "5:1: unknown key settel: did you mean settle?",
        "6:7: poll is 30, a bare number: write a duration with its unit, such as 500ms, 30s, 5m or 24h",
        "12:12: consolidation.command is 'my-agent dream', which is not right: "
        "write a list of words, such as [notify-send, hello]",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("settle: 500", "settle is 500, a bare number"),
        ('settle: "500"', "settle is 500, a bare number"),
        ("settle: 0.5", "settle is 0.5, a bare number"),
        ("settle: 1e3", "settle is '1e3', which is not right"),
        ("settle: 12:30:45", "settle is '12:30:45', which is not right"),
        ("settle: fast", "settle is 'fast', which is not right"),
        ("settle: -1s", "settle is '-1s', which is not right"),
        ("settle: [1s]", "settle is not right"),
        ("poll: 0s", "poll is 0s: at least 50ms is needed"),
        ("hold_back_over: 50", "hold_back_over is 50, a bare number: write a size with its unit, such as 50MiB"),
        ("hold_back_over: 50M", "hold_back_over is '50M', which is not right"),
        ("hooks: {synced: notify}", "hooks.synced is 'notify', which is not right: write a list of words"),
        ("hooks: {synced: []}", "hooks.synced is not right: write a list of words"),
        ("hooks: {syncd: [x]}", "unknown key syncd in hooks: did you mean synced?"),
        ("hold-back-over: 1MiB", "unknown key hold-back-over: did you mean hold_back_over?"),
        ("Heartbeat: 1h", "unknown key Heartbeat: did you mean heartbeat?"),
        ("zzzzzzzz: 1", "unknown key zzzzzzzz: known are agent, body"),
        ("consolidation: {schedule: 0 4 * * *}", "command is missing in consolidation"),
        ("consolidation: {schedule: 61 4 * * *, command: [x]}", "write five fields of cron"),
        ("consolidation: {schedule: daily, command: [x]}", "write five fields of cron"),
        ("key: keys/mine", "key is 'keys/mine', which is not right: write an absolute path"),
        ("? [a]\n: b", "a key must be a word"),
        ("hooks: &a {synced: [x]}\nconsolidation: *a", "aliases (*name) are not understood here"),
        ("guard: !!python/object/apply:os.system [id]", "is not understood here: leave it out"),
        ("guard: !secret 5s", "is not understood here: leave it out"),
        ("body: other", "body is there twice: it was first given in line 2"),
    ],
)
def test_a_wrong_line_is_told_where_it_stands(places: Places, line: str, words: str) -> None:
    told = problems(places, LEAST + line + "\n")
    assert [text for text in told if text.startswith(("5:", "6:")) and words in text], told


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("body", "laptop"),
        ("settle", "1s"),
        ("hold_back_over", "1MiB"),
        ("metrics: {file", "/m/soul.prom"),
        ("consolidation: {command: [x], schedule", "0 4 * * *"),
    ],
)
def test_a_line_end_behind_a_value_makes_it_another_value(places: Places, key: str, value: str) -> None:
    """It would be a part of every path, address and argument that the value goes into."""
    kept = "".join(line + "\n" for line in LEAST.splitlines() if line.partition(":")[0] != key)
    closing = "}" if "{" in key else ""
    write(places, f'{kept}{key}: "{value}"{closing}\n')
    config.load(places, "kaoru")
    name = key.partition(":")[0]
    assert any(
        name in told and "which is not right" in told
        for told in problems(places, f'{kept}{key}: "{value}\\n"{closing}\n')
    )


def test_a_value_is_the_text_that_was_written_whatever_yaml_makes_of_it(places: Places) -> None:
    body = LEAST.replace("body: laptop", "body: 012")
    write(places, body + "hooks: {synced: [say, no, on, 1e3, 0x1F, ~, 12:30:45, 2026-01-01]}\n")
    read = config.load(places, "kaoru")
    assert read.body == "012"
    assert read.hooks["synced"] == ("say", "no", "on", "1e3", "0x1F", "~", "12:30:45", "2026-01-01")


def test_an_agent_named_no_stays_no(places: Places) -> None:
    write(places, LEAST.replace("agent: kaoru", "agent: no"), "no")
    assert config.load(places, "no").agent == "no"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"agent: [kaoru\n", "this is not YAML"),
        (b"agent: kaoru\n\tbody: x\n", "this is not YAML"),
        (b"agent: kaoru\n---\nagent: mei\n", "this is not YAML"),
        (b"agent: ka\xffru\n", "1:10: this is not UTF-8 text"),
        (b"agent: a\nbody: b\x1b[2J\n", "2:8: there is a control character here"),
        (b"", "keys and values are expected here"),
        (b"just words\n", "keys and values are expected here"),
        (b"- a\n", "keys and values are expected here"),
        (b"a: " + b"[" * 5000, "this is not YAML"),
    ],
)
def test_what_is_not_a_configuration_at_all_is_told_without_a_traceback(
    places: Places, text: bytes, words: str
) -> None:
    assert words in problems(places, text)[0]


def test_another_name_inside_than_the_file_has_is_refused(places: Places) -> None:
    assert problems(places, LEAST.replace("kaoru\n", "mei\n", 1)) == [
        "1:8: agent is 'mei', but the file is named kaoru.yaml"
    ]


@pytest.mark.parametrize("remote", ["https://github.com/me/kaoru.soul.git", "/srv/kaoru.git", "me@host:o/k.git"])
def test_an_address_that_is_not_ssh_as_git_is_refused_with_its_rule(places: Places, remote: str) -> None:
    told = problems(places, LEAST.replace("git@github.com:me/kaoru.soul.git", remote))
    assert [text for text in told if text.startswith("4:9: remote: ") and text.endswith("(AUTH-1)")]


def test_a_password_in_an_address_is_not_told_to_anybody(places: Places) -> None:
    told = problems(places, LEAST.replace("git@github.com:me", "https://me:s3cret@github.com/me"))
    assert "s3cret" not in "\n".join(told)


def test_a_missing_configuration_names_those_there_are_and_what_to_type(places: Places) -> None:
    write(places, LEAST.replace("kaoru", "mei"), "mei")
    with pytest.raises(Unusable, match=r"configured: mei") as caught:
        config.load(places, "kaoru")
    assert caught.value.advice.startswith("soul-bridge init kaoru --remote ")


@pytest.mark.parametrize("agent", ["../kaoru", "Kaoru", "", "a" * 41, "a/b"])
def test_a_name_that_no_agent_can_have_reads_no_file(places: Places, agent: str) -> None:
    with pytest.raises(Unusable, match="cannot be the name of an agent"):
        config.load(places, agent)


def test_a_configuration_that_everybody_may_change_is_refused(places: Places) -> None:
    write(places, LEAST).chmod(0o666)
    with pytest.raises(Unusable, match="everybody may change") as caught:
        config.load(places, "kaoru")
    assert caught.value.advice.startswith("chmod o-w ")


def test_a_directory_in_place_of_a_configuration_is_told(places: Places) -> None:
    places.config_file("kaoru").mkdir()
    with pytest.raises(Unusable, match="cannot be read"):
        config.load(places, "kaoru")


def test_only_configurations_are_counted_as_agents(places: Places) -> None:
    for name in ("mei.yaml", "kaoru.yaml", ".kaoru.yaml.1.new", "notes.txt", "kaoru.yaml.bak"):
        (places.config / name).touch()
    (places.config / "dir.yaml").mkdir()
    assert config.agents(places) == ["kaoru", "mei"]


def test_without_a_configuration_directory_there_is_no_agent(tmp_path: Path) -> None:
    assert config.agents(config.locate({"SOUL_BRIDGE_HOME": str(tmp_path / "none")})) == []


def test_a_saved_configuration_is_private_explained_and_reads_back_the_same(places: Places) -> None:
    write(places, FULL)
    wanted = config.load(places, "kaoru")
    path = config.save(places, wanted)
    assert config.load(places, "kaoru") == wanted
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(places.config) == ["kaoru.yaml"]
    text = path.read_text()
    assert "soul: ~/souls/kaoru.soul\n" in text
    assert "# a file is read once it has been quiet this long" in text


def test_a_saved_configuration_with_defaults_shows_them_as_comments(places: Places) -> None:
    plain = Settings("kaoru", "laptop", Path("/s"), "git@h.example:o/k.git", places.key_file("kaoru", "laptop"))
    path = config.save(places, plain)
    assert "# poll: 30s " in path.read_text()
    shown = dict(re.findall(r"(?m)^# (\w+): (\S+)  +#", path.read_text()))
    assert shown["hold_back_over"] == "50MiB"
    assert shown["heartbeat"] == "24h"
    assert config.load(places, "kaoru") == plain


def test_a_configuration_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    places = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path)})
    (tmp_path / "config").write_text("in the way")
    plain = Settings("kaoru", "laptop", Path("/s"), "git@h.example:o/k.git", tmp_path / "key")
    with pytest.raises(Unusable, match="cannot be written"):
        config.save(places, plain)
    assert (tmp_path / "config").read_text() == "in the way"


words = st.lists(st.text(st.characters(), max_size=8), min_size=1, max_size=3)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 10**9), words)
def test_whatever_is_saved_is_loaded(places: Places, milliseconds: int, held: int, command: list[str]) -> None:
    wanted = Settings(
        "kaoru", "laptop", Path("/s s/\udcfc#"), "git@h.example:o/k.git", Path("/k"), settle=milliseconds / 1000,
        hold_back_over=held, hooks={"synced": tuple(command)},
        consolidation=Consolidation("*/5 1-3 1,15 jan sun-fri", tuple(command)),
    )  # fmt: skip
    config.save(places, wanted)
    assert config.load(places, "kaoru") == wanted


@given(st.integers(0, 10**9))
def test_a_duration_in_words_is_the_same_duration(milliseconds: int) -> None:
    assert seconds(duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@given(st.integers(0, 2**45))
def test_a_size_in_words_is_the_same_size(value: int) -> None:
    assert octets(size(value)) == value


def test_one_directory_holds_everything_when_it_is_named(tmp_path: Path) -> None:
    places = config.locate({"SOUL_BRIDGE_HOME": str(tmp_path), "XDG_CONFIG_HOME": "/elsewhere", "HOME": "/h"})
    assert places.config_file("k") == tmp_path / "config" / "k.yaml"
    assert places.key_file("k", "b") == tmp_path / "keys" / "k.b"
    assert places.known_hosts == tmp_path / "known_hosts"
    assert places.status_file("k") == tmp_path / "state" / "k" / "status.json"
    assert places.soul_dir("k") == tmp_path / "souls" / "k.soul"


def test_the_places_of_a_user_follow_xdg_where_it_is_absolute() -> None:
    places = config.locate({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "relative"})
    assert places.config_file("k") == Path("/c/soul-bridge/k.yaml")
    assert places.key_file("k", "b") == Path("/c/soul-bridge/keys/k.b")
    assert places.state_dir("k") == Path("/h/.local/state/soul-bridge/k")
    assert places.soul_dir("k") == Path("/h/souls/k.soul")


def test_the_system_service_has_its_own_places() -> None:
    granted = {"CONFIGURATION_DIRECTORY": "/etc/soul-bridge", "STATE_DIRECTORY": "/var/lib/soul-bridge", "HOME": "/h"}
    assert config.locate(granted) == config.locate({"HOME": "/h"}, system=True)
    assert config.locate(granted).config_file("k") == Path("/etc/soul-bridge/k.yaml")


def test_directories_that_systemd_granted_to_another_service_are_not_ours() -> None:
    theirs = {"STATE_DIRECTORY": "/var/lib/hermes", "CONFIGURATION_DIRECTORY": "/etc/hermes", "HOME": "/h"}
    assert config.locate(theirs) == config.locate({"HOME": "/h"})


def test_the_schema_is_a_schema_and_names_every_setting() -> None:
    from bridge.adapters.config.settings import _schema

    schema = _schema()
    Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) == set(Settings.__dataclass_fields__)


@pytest.mark.parametrize(
    ("listen", "found"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("localhost:80", ("127.0.0.1", 80)), ('"[::1]:9464"', ("::1", 9464)),
     ("127.8.9.1:65535", ("127.8.9.1", 65535))],
)  # fmt: skip
def test_numbers_are_answered_on_loopback(places: Places, listen: str, found: tuple[str, int]) -> None:
    write(places, LEAST + f"metrics: {{listen: {listen}, file: ~/k.prom}}\n")
    assert config.load(places, "kaoru").metrics == Metrics(found, Path("/home/kaoru/k.prom"))


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (
            "listen: 0.0.0.0:9464",
            "other machines could ask there, and they get nothing but by the key of a body (AUTH-4)",
        ),
        ("listen: 10.0.0.1:9464", "(AUTH-4): write 127.0.0.1"),
        ('listen: "[::]:9464"', "(AUTH-4): write 127.0.0.1"),
        ('listen: "[2001:db8::1]:9464"', "(AUTH-4): write 127.0.0.1"),
        ("listen: example.org:9464", "metrics.listen is 'example.org:9464': write 127.0.0.1 or [::1] and a port"),
        ('listen: "9464"', "write 127.0.0.1 or [::1] and a port, such as 127.0.0.1:9464"),
        ("listen: 127.0.0.1", "write 127.0.0.1 or [::1] and a port"),
        ("listen: 127.0.0.1:0", "the port is a number from 1 to 65535"),
        ("listen: 127.0.0.1:65536", "the port is a number from 1 to 65535"),
        ("listen: 127.0.0.1:x", "the port is a number from 1 to 65535"),
        ("file: /var/lib/x/soul.txt", "write an absolute path, or one that begins with ~/, which ends in .prom"),
        ("file: soul.prom", "write an absolute path"),
        ("file: /var/lib/.prom", "write an absolute path"),
        ("file: /souls/k/notes/x.prom", "inside the soul it would be published (CONTENT-2)"),
        ("file: /souls/x/../k/x.prom", "inside the soul it would be published (CONTENT-2)"),
        ("listen: [a]", "metrics.listen is not right: write one text"),
        ("port: 9464", "unknown key port in metrics"),
    ],
)
def test_numbers_for_other_machines_or_for_the_soul_are_refused_in_words(
    places: Places, metrics: str, said: str
) -> None:
    assert [words for words in problems(places, LEAST + f"metrics:\n  {metrics}\n") if said in words]


def test_who_is_told_is_the_desktop_or_a_program(places: Places) -> None:
    for text, found in (("desktop", "desktop"), ("[my-program, told]", ("my-program", "told")), ("", ())):
        write(places, LEAST + f"notify: {text}\n")
        assert config.load(places, "kaoru").notify == found
    for text in ("phone", "[]", "{a: b}"):
        said = problems(places, LEAST + f"notify: {text}\n")
        assert "write desktop, or a list of words, such as [my-program, told]" in said[0]


def test_where_numbers_and_notices_go_is_saved_and_read_back(places: Places) -> None:
    write(places, LEAST)
    plain = config.load(places, "kaoru")
    assert "# notify: desktop" in config.save(places, plain).read_text()
    for metrics in (Metrics(("::1", 9464), Path("/x y/k.prom")), Metrics(None, Path("/home/kaoru/k.prom")), None):
        for notify in ("desktop", ("desktop",), ("say", "no: #1"), ()):
            settings = replace(plain, metrics=metrics, notify=notify)
            config.save(places, settings)
            assert config.load(places, "kaoru") == settings == config.load_to_read(places, "kaoru")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"settle: {'9' * 400}s", "settle is 999"),
        (f"poll: {'9' * 5000}d", "poll is 999"),
        ("guard: 36501d", "guard is 36501d: at most 36500d can be"),
        (f"hold_back_over: {'9' * 400}GiB", "at most 1048576GiB can be"),
        ("hold_back_over: 1048577GiB", "at most 1048576GiB can be"),
        (f"metrics: {{listen: '127.0.0.1:{'9' * 5000}'}}", "the port is a number from 1 to 65535"),
    ],
)
def test_a_number_that_nothing_can_hold_is_refused_in_one_short_line(places: Places, text: str, said: str) -> None:
    write(places, LEAST + text + "\n")
    for load in (config.load, config.load_to_read):
        with pytest.raises(Unusable) as refused:
            load(places, "kaoru")
        assert said in refused.value.message and len(refused.value.message) < 500


def test_a_name_that_was_mistyped_is_answered_with_the_soul_that_was_meant(places: Places) -> None:
    write(places, LEAST)
    for name, advice in (("koaru", "soul-bridge status kaoru"), ("Kaoru", "soul-bridge status kaoru")):
        with pytest.raises(Unusable) as refused:
            config.load(places, name)
        assert refused.value.advice == advice
    with pytest.raises(Unusable) as unknown:
        config.load(places, "mei")
    assert unknown.value.advice.startswith("soul-bridge init mei --remote ")
    with pytest.raises(Unusable) as nonsense:
        config.load(places, "x\ny")
    assert "\n" not in nonsense.value.message
