"""Step-time profiles of modelled engines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """How long a forward pass takes: linear in what it computes.

    Attributes:
        name: for settings and operators.
        source: where the figures come from.
        base_s: seconds that any step takes (weights read once, launch costs).
        per_token_s: seconds for each prompt token computed.
        per_sequence_s: seconds for each sequence that decodes one token.
        kv_bytes_per_token: bytes of keys and values of one token.
        kv_gib: GiB of KV cache; None to take it from the settings.
        dtype: what the modelled engine computes in.
    """

    name: str
    source: str
    base_s: float
    per_token_s: float
    per_sequence_s: float
    kv_bytes_per_token: int
    kv_gib: float | None
    dtype: str

    def step_s(self, tokens: int, sequences: int) -> float:
        """Seconds of a step that computes ``tokens`` tokens for ``sequences`` sequences."""
        return self.base_s + (tokens - sequences) * self.per_token_s + sequences * self.per_sequence_s


_ALL = (
    Profile(
        name="cpu-2core-smollm2",
        source=(
            "fit of vLLM 0.32 on two shared CPU cores with SmolLM2-135M-Instruct in float32, eager: 13, 74, 147 and "
            "186 tokens/s at 1, 8, 32 and 64 sequences (the line is within 5 % of each); prefill is assumed"
        ),
        base_s=0.0727,
        per_token_s=0.0025,
        per_sequence_s=0.00424,
        kv_bytes_per_token=30 * 2 * 3 * 64 * 4,
        kv_gib=None,
        dtype="float32",
    ),
    Profile(
        name="h100-llama-3.1-8b",
        source=(
            "fit of NVIDIA's published NIM 1.8.0 figures for Llama-3.1-8B-Instruct on H100 80 GB: time between tokens "
            "4.63, 4.58, 5.19, 5.91 and 7.57 ms at 1, 5, 25, 50 and 100 requests (the line is within 3 % of each); "
            "prefill (25 us a token) and KV cache (40 GiB) are assumed"
        ),
        base_s=0.0045,
        per_token_s=0.000025,
        per_sequence_s=0.00003,
        kv_bytes_per_token=32 * 2 * 8 * 128 * 2,
        kv_gib=40.0,
        dtype="bfloat16",
    ),
    Profile(
        name="a100-qwen2-7b",
        source=(
            "Qwen's published speed of Qwen2-7B-Instruct in bfloat16 on one A100 80 GB with vLLM 0.4.2: 80.45 tokens/s "
            "alone, 12.43 ms a step (15.2 GB of weights at 2.04 TB/s would take 7.5 ms). Prefill is 2 x 7.6e9 FLOP a "
            "token at half of 312 TFLOP/s, assumed; a sequence costs what it costs in h100-llama-3.1-8b times "
            "3.35/2.04 for the slower memory, assumed; so is the KV cache (50 GiB)"
        ),
        base_s=0.01238,
        per_token_s=0.0000974,
        per_sequence_s=0.00005,
        kv_bytes_per_token=28 * 2 * 4 * 128 * 2,
        kv_gib=50.0,
        dtype="bfloat16",
    ),
    Profile(
        name="h100x4-llama-3-70b",
        source=(
            "fit of NVIDIA's published NIM 1.3.0 figures for Llama-3.1-70B-Instruct: time between tokens 13.21, 12.64, "
            "15.31, 17.42, 23.28, 27.73 and 31.22 ms at 1, 5, 25, 50, 100, 150 and 200 requests (the line is within "
            "6 % of each). Four H100 80 GB in bfloat16 are assumed for them: 141 GB of weights at 4 x 3.35 TB/s take "
            "10.5 ms, and 13.2 ms are 80 % of that speed. Prefill is 2 x 70.6e9 FLOP a token at half of 4 x 989 "
            "TFLOP/s, assumed; so is the KV cache (120 GiB)"
        ),
        base_s=0.0129,
        per_token_s=0.0000714,
        per_sequence_s=0.000095,
        kv_bytes_per_token=80 * 2 * 8 * 128 * 2,
        kv_gib=120.0,
        dtype="bfloat16",
    ),
    Profile(
        name="zero",
        source="no model time at all: measures everything around the engine",
        base_s=0.0,
        per_token_s=0.0,
        per_sequence_s=0.0,
        kv_bytes_per_token=1024,
        kv_gib=None,
        dtype="float32",
    ),
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in _ALL}
