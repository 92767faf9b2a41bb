"""Each profile's steps take the time that its source tells."""

import pytest

from domain.simulation.profiles import PROFILES, Profile

# Profile, sequences that decode, seconds that a step was measured to take, tolerance.
MEASURED = [
    *(("cpu-2core-smollm2", n, n / tokens_per_s, 0.05) for n, tokens_per_s in ((1, 13), (8, 74), (32, 147), (64, 186))),
    *(
        ("h100-llama-3.1-8b", n, ms / 1000, 0.03)
        for n, ms in ((1, 4.63), (5, 4.58), (25, 5.19), (50, 5.91), (100, 7.57))
    ),
    ("a100-qwen2-7b", 1, 1 / 80.45, 0.01),
    *(
        ("h100x4-llama-3-70b", n, ms / 1000, 0.06)
        for n, ms in ((1, 13.21), (5, 12.64), (25, 15.31), (50, 17.42), (100, 23.28), (150, 27.73), (200, 31.22))
    ),
]

# Profile, parameters, FLOP/s of all its GPUs.
ROOFLINES = [("a100-qwen2-7b", 7.6e9, 312e12), ("h100x4-llama-3-70b", 70.6e9, 4 * 989e12)]


@pytest.mark.parametrize(("name", "sequences", "measured_s", "tolerance"), MEASURED)
def test_a_decoding_step_takes_what_was_measured(
    name: str, sequences: int, measured_s: float, tolerance: float
) -> None:
    assert PROFILES[name].step_s(sequences, sequences) == pytest.approx(measured_s, rel=tolerance)


@pytest.mark.parametrize(("name", "parameters", "flops"), ROOFLINES)
def test_prefill_takes_half_of_what_the_gpus_can_compute(name: str, parameters: float, flops: float) -> None:
    assert PROFILES[name].per_token_s == pytest.approx(2 * parameters / (flops / 2), rel=0.01)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES.keys())
def test_a_longer_prompt_and_more_sequences_never_make_a_step_shorter(profile: Profile) -> None:
    alone = profile.step_s(1, 1)

    assert alone <= profile.step_s(512, 1)
    assert alone <= profile.step_s(64, 64)
