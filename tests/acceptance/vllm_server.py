"""vLLM's own server, with the settings that our engine gets."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
from django.conf import settings
from openai import AsyncOpenAI

from tests.stack import START_S, free_port, wait_until
from workers.engines.models.prepare import prepare
from workers.engines.vllm_arguments import arguments

STOP_S = 30.0


@contextmanager
def start(directory: Path) -> Iterator[str]:
    """Run it until the end of the block; yields its base URL, which ends in /v1."""
    port = free_port()
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
    model = prepare(settings.SLUICE, lambda _text: None)
    options = [*arguments(settings.SLUICE, str(model), on_cpu=True), "--disable-uvicorn-access-log"]
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_RPC_BASE_PATH": str(directory)}
    environ.pop("VLLM_CPU_KVCACHE_SPACE", None)
    log = directory / "vllm.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*module, *options], stdout=output, stderr=subprocess.STDOUT, env=environ)
    try:
        wait_until(lambda: _answers(port, process, log), START_S, "vLLM's server did not start")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _stop(process)


def client(base_url: str) -> AsyncOpenAI:
    """The official client for it."""
    return AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)


def _answers(port: int, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"vLLM's server ended:\n{log.read_text()[-4000:]}")
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/health").is_success
    return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Its engine processes would outlive it if it had to be killed: they go with it."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    for relative in [*family, *([psutil.Process(process.pid)] if process.poll() is None else [])]:
        with suppress(psutil.NoSuchProcess):
            relative.kill()
    process.wait(STOP_S)
