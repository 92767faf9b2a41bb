"""``python -m bench NAME [options]``: one benchmark; without a name, all of them with their defaults."""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")

from bench import (
    admission,
    affinity,
    attack,
    attribution,
    batching,
    bulk,
    engine,
    equal_prefixes,
    eviction,
    fair_share,
    filters,
    gateway_cost,
    overload,
    padding,
    protection,
    slices,
    soak,
    tenancy,
    token_count,
    trace_store,
    tracing_cost,
)

BENCHMARKS = {
    "admission": admission.main,
    "equal_prefixes": equal_prefixes.main,
    "gateway_cost": gateway_cost.main,
    "engine": engine.main,
    "batching": batching.main,
    "bulk": bulk.main,
    "padding": padding.main,
    "eviction": eviction.main,
    "overload": overload.main,
    "fair_share": fair_share.main,
    "affinity": affinity.main,
    "slices": slices.main,
    "tenancy": tenancy.main,
    "soak": soak.main,
    "token_count": token_count.main,
    "filters": filters.main,
    "protection": protection.main,
    "attack": attack.main,
    "attribution": attribution.main,
    "trace_store": trace_store.main,
    "tracing_cost": tracing_cost.main,
}


def main() -> None:
    """Run what was asked for."""
    names = sys.argv[1:2] or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f"There is no benchmark {name!r}. There are: {', '.join(BENCHMARKS)}.")
        BENCHMARKS[name](sys.argv[2:])


if __name__ == "__main__":
    main()
