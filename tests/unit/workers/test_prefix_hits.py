"""The share of prompts found in the KV cache is that of the last five minutes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.prefix_hits import SLOT_MS, SPAN_MS, PrefixHits

COUNTS = st.tuples(st.integers(0, 600_000), st.integers(0, 10_000), st.floats(0, 1))


def test_without_prompts_the_rate_is_zero() -> None:
    hits = PrefixHits()
    assert hits.rate(0) == 0.0
    hits.add(0, 0, 0)
    assert hits.rate(0) == 0.0


def test_the_rate_is_by_tokens_and_not_by_requests() -> None:
    hits = PrefixHits()
    hits.add(0, 900, 900)
    hits.add(10, 100, 0)
    assert hits.rate(20) == pytest.approx(0.9)


def test_what_is_older_than_five_minutes_is_forgotten() -> None:
    hits = PrefixHits()
    hits.add(0, 1000, 1000)
    hits.add(SPAN_MS // 2, 1000, 0)
    assert hits.rate(SPAN_MS - SLOT_MS) == pytest.approx(0.5)
    assert hits.rate(SPAN_MS + SLOT_MS) == 0.0
    assert hits.rate(3 * SPAN_MS) == 0.0


@given(st.lists(COUNTS, max_size=30))
def test_the_rate_is_a_share_of_what_the_span_holds(counts: list[tuple[int, int, float]]) -> None:
    hits, now = PrefixHits(), 0
    kept = []
    for after_ms, prompt, share in counts:
        now += after_ms
        hits.add(now, prompt, int(prompt * share))
        kept.append((now, prompt, int(prompt * share)))
    recent = [one for one in kept if one[0] // SLOT_MS >= (now - SPAN_MS) // SLOT_MS]
    prompts = sum(prompt for _, prompt, _ in recent)
    expected = sum(cached for _, _, cached in recent) / prompts if prompts else 0.0
    assert hits.rate(now) == pytest.approx(expected)
    assert len(hits._slots) <= SPAN_MS // SLOT_MS + 1
