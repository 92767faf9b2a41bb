import pytest

from domain.money import decimal_text


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0.00"),
        (1, "0.000000001"),
        (500_000_000, "0.50"),
        (-1_250_000_000, "-1.25"),
        (12_345_678_900, "12.3456789"),
        (10**24, "1000000000000000.00"),
    ],
)
def test_money_is_written_exactly(nano: int, text: str) -> None:
    assert decimal_text(nano) == text
