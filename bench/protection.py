"""What protecting the cache costs one gateway process: each layer's time against its budget.

One process, one thread but for the disk's, everything as a gateway holds it: a filter of 2^20 ids at 1 %, a whitelist
of 1,000 keys, 10,000 answers on the disk. What computes is timed by the CPU that it takes, what waits (disk, store) by
the clock on the wall. "A miss" is all that a cacheable request passes before its admission when no
layer helps it: form and filter of a stored id, canonical body, key, counting, ban, first level. Beside it: what the
look-up adds to admission, which is one round trip with and without it, on a Valkey of its own.

``make bench ARGS="protection [--rounds 20000]"``
"""

import argparse
import asyncio

import django

from bench.report import write


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    options = parser.parse_args(arguments)
    django.setup()
    from bench.protection_layers import measure  # models can be imported only now

    command = f'make bench ARGS="{" ".join(["protection", *arguments])}"'
    write("protection", command, asyncio.run(measure(options.rounds)), [])
