"""Numbers are text that any reader of Prometheus' format takes, whatever names they carry."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.exposition import Family, text
from tests.prometheus import parse


def family(value: float | None, **labels: str) -> Family:
    made = Family("soul_bridge_x", "gauge", 'what\nit "means" \\ is')
    made.add(labels, value)
    return made


def test_a_family_is_its_head_and_its_samples() -> None:
    made = Family("soul_bridge_pass_seconds", "summary", "Seconds.")
    made.add({}, 1.5, "_sum")
    made.add({}, 3, "_count")
    assert text([made]) == (
        "# HELP soul_bridge_pass_seconds Seconds.\n# TYPE soul_bridge_pass_seconds summary\n"
        "soul_bridge_pass_seconds_sum 1.5\nsoul_bridge_pass_seconds_count 3\n"
    )


def test_without_a_sample_there_is_no_head() -> None:
    assert text([family(None)]) == ""


@given(st.text(), st.text())
def test_any_name_comes_back_as_it_was(agent: str, soul: str) -> None:
    said = text([family(1, agent=agent, soul=soul)])
    ((_, labels),) = parse(said)["soul_bridge_x"].samples
    sayable = [name.encode("utf-8", "replace").decode() for name in (agent, soul)]
    assert dict(labels) == {"agent": sayable[0], "soul": sayable[1]}


@given(st.floats())
def test_any_number_comes_back_as_it_was(value: float) -> None:
    read = parse(text([family(value)]))["soul_bridge_x"].value()
    assert read == value or (math.isnan(read) and math.isnan(value))


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (1.0, "1"), (0.25, "0.25"), (1796084041.269, "1796084041.269"), (math.inf, "+Inf"),
     (-math.inf, "-Inf"), (math.nan, "NaN"), (1e300, "1e+300")],
)  # fmt: skip
def test_a_number_is_written_as_the_format_has_it(value: float, said: str) -> None:
    assert text([family(value)]).splitlines()[-1] == f"soul_bridge_x {said}"


def test_a_help_is_on_one_line() -> None:
    said = text([family(1)])
    assert said.splitlines()[0] == '# HELP soul_bridge_x what\\nit "means" \\\\ is'
    assert parse(said)["soul_bridge_x"].help == 'what\nit "means" \\ is'
