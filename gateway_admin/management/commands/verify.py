"""Prove that an engine says the same in a batch and alone: ``manage.py verify``."""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from domain.config import Config, ConfigError
from gateway_admin.supervisor.options import merge_settings
from workers.verify.passes import CannotVerify, verify
from workers.verify.report import Report

_COULD_NOT_RUN = 2
_SETTINGS = {
    "engine": "vllm, padded or simulator",
    "model": "Hugging Face id or path of the model",
    "dtype": "auto, float32, bfloat16 or float16",
    "max-num-seqs": "sequences that the engine runs at once",
    "sim-profile": "the simulator's step times",
}


class Command(BaseCommand):
    """Asks one engine of its own, in this process; nothing that serves is touched."""

    help = (
        "Start the configured engine, ask built-in prompts of mixed lengths one at a time and all at once, and "
        "compare tokens and likelihoods, or embeddings. Exit status: 0 equal, 1 different, 2 it could not run."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        for name, text in _SETTINGS.items():
            parser.add_argument(f"--{name}", help=text)
        parser.add_argument("--prompts", type=_count, default=32, help="how many prompts (32)")
        parser.add_argument("--concurrency", type=_count, help="how many at once (what the engine takes)")
        parser.add_argument("--max-tokens", type=_count, default=24, help="tokens of each answer (24)")
        parser.add_argument("--allow-near-ties", action="store_true", help="exit with 0 where only near-ties differ")
        parser.add_argument(
            "--fault", default="", help="simulator only: script that comes with the batch, e.g. garbage"
        )
        parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")

    def handle(self, *args: Any, **given: Any) -> None:
        config = _read_config(given)
        if given["fault"] and config.engine != "simulator":
            raise CommandError("--fault is for the simulator alone.", returncode=_COULD_NOT_RUN)
        try:
            report = asyncio.run(self._verify(config, given))
            if given["json"]:
                given["json"].write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
        except (CannotVerify, OSError) as error:
            raise CommandError(str(error), returncode=_COULD_NOT_RUN) from error
        self.stdout.write(report.as_text())
        if report.verdict != "equal" and not (report.verdict == "near-ties" and given["allow_near_ties"]):
            sys.exit(1)

    async def _verify(self, config: Config, given: dict[str, Any]) -> Report:
        return await verify(
            config,
            count=given["prompts"],
            concurrency=given["concurrency"] or 0,
            max_tokens=given["max_tokens"],
            fault=given["fault"],
            progress=self._show,
        )

    def _show(self, what: str, done: int, total: int) -> None:
        """One line that moves on a terminal, else a line each quarter."""
        text = f"{what}: {done} of {total}" if total else f"{what} ..."
        if self.stderr.isatty():
            self.stderr.write(f"\r{text:60}", ending="\n" if done == total else "")
        elif not total or done * 4 // total != (done - 1) * 4 // total:
            self.stderr.write(text)


def _read_config(given: dict[str, Any]) -> Config:
    names = [name.replace("-", "_") for name in _SETTINGS]
    try:
        config, _ = merge_settings(os.environ, {name: given[name] for name in names})
    except ConfigError as error:
        raise CommandError(str(error), returncode=_COULD_NOT_RUN) from error
    return config


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number
