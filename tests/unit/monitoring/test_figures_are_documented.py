"""The reference lists every figure as the code has it."""

from shipped import ROOT, families, reference_row

REFERENCE = ROOT / "docs" / "reference" / "metrics.md"


def test_every_figure_is_in_the_reference_and_nothing_else_is() -> None:
    # The first line that differs is what to write there.
    rows = [line for line in REFERENCE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [reference_row(family) for family in families()]


def test_names_of_figures_end_in_their_unit_or_say_what_they_count() -> None:
    for family in families():
        assert family.name.startswith(("sluice_", "gen_ai_server_"))
        assert family.help.endswith(".")
