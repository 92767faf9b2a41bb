"""The reference lists every setting."""

from dataclasses import fields
from pathlib import Path

from domain.config import Config

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "settings.md"


def test_every_setting_is_in_the_reference_and_nothing_else_is() -> None:
    listed = {line.split("`")[1] for line in REFERENCE.read_text().splitlines() if line.startswith("| `SLUICE_")}
    assert listed == {f"SLUICE_{field.name.upper()}" for field in fields(Config)}
