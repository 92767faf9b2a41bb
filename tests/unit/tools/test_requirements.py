"""The pinned lists are one resolution: no name twice, every line exact."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

DIRECTORY = Path(__file__).resolve().parents[3] / "requirements"


def pins(name: str) -> dict[str, str]:
    lines = (DIRECTORY / name).read_text().splitlines()
    exact = [line.split(";")[0].strip() for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==\S+", line) for line in exact), exact
    return {canonicalize_name(package): version for package, _, version in (line.partition("==") for line in exact)}


def test_no_list_repeats_what_the_gateway_pins() -> None:
    gateway = pins("gateway.txt")
    for path in DIRECTORY.glob("*.txt"):
        if path.name != "gateway.txt":
            assert not gateway.keys() & pins(path.name).keys(), path.name


@pytest.mark.parametrize("name", ["engine-cpu.txt", "engine-gpu.txt"])
def test_developers_and_the_engine_agree_on_what_both_need(name: str) -> None:
    engine, dev = pins(name), pins("dev.txt")
    assert {name for name in engine.keys() & dev.keys() if engine[name] != dev[name]} == set()


@pytest.mark.parametrize("package", sorted(pins("gateway.txt")))
def test_the_gateway_list_holds_all_that_its_packages_need(package: str) -> None:
    listed = pins("gateway.txt")
    try:
        needs = [Requirement(text) for text in distribution(package).requires or []]
    except PackageNotFoundError:
        pytest.skip("not installed here")
    plain = [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    assert [str(need) for need in plain if canonicalize_name(need.name) not in listed] == []
    for need in plain:
        assert need.specifier.contains(listed[canonicalize_name(need.name)], prereleases=True), str(need)
