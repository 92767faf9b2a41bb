"""How long a client waits, by its header."""

import pytest

from gateway.client_timeout import read_timeout_s


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ([b"600"], 600.0),
        ([b"0.5"], 0.5),
        ([], None),
        ([b"0"], None),
        ([b"-1"], None),
        ([b"nan"], None),
        ([b"inf"], None),
        ([b"soon"], None),
        ([b"\xff"], None),
        ([b"5", b"6"], None),
    ],
)
def test_only_one_sensible_number_counts(values: list[bytes], seconds: float | None) -> None:
    headers = [(b"x-other", b"1"), *((b"x-stainless-read-timeout", value) for value in values)]
    assert read_timeout_s(headers) == seconds
