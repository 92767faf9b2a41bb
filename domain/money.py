"""Money as text: exact, without a rounding anywhere."""

_NANO_DIGITS = 9
_MIN_DECIMALS = 2


def decimal_text(nano: int) -> str:
    """Billionths of the currency's unit as a decimal number of units with at least two decimals: ``-0.50``."""
    whole, part = divmod(abs(nano), 10**_NANO_DIGITS)
    decimals = f"{part:0{_NANO_DIGITS}d}".rstrip("0").ljust(_MIN_DECIMALS, "0")
    return f"{'-' if nano < 0 else ''}{whole}.{decimals}"
