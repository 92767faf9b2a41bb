"""A whole instance with the simulator, in processes of its own."""

import json
import os
import random
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from processes import wait_until

from gateway_admin.supervisor.ports import free_port
from gateway_admin.supervisor.strays import read_records

ROOT = Path(__file__).resolve().parents[3]
START_S = 90.0


class InstanceProcess:
    """``manage.py up`` on a data directory and a port."""

    def __init__(self, data_dir: Path, port: int = 0, *options: str) -> None:
        self.data_dir = data_dir
        self.port = port or free_port(random.Random())
        self.options = options
        self.process = self._launch()
        self.output = ""

    def _launch(self) -> "subprocess.Popen[str]":
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--engine", "simulator", "--sim-profile", "zero"]
        where = ["--no-flower", "--port", str(self.port), "--data-dir", str(self.data_dir)]
        environ = {name: text for name, text in os.environ.items() if not name.startswith("SLUICE_")}
        return subprocess.Popen(
            [*command, *where, *self.options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
        )

    def wait_ready(self) -> "InstanceProcess":
        """Wait until ``ready.json`` is there; show the output when it ends before."""
        path = self.data_dir / "ready.json"
        wait_until(lambda: path.exists() or self.process.poll() is not None, "ready", START_S)
        assert path.exists(), self.process.communicate()[0]
        return self

    @property
    def ready(self) -> dict[str, str]:
        """What ``ready.json`` holds."""
        content: dict[str, str] = json.loads((self.data_dir / "ready.json").read_text())
        return content

    def pid_of(self, name: str) -> int:
        """Process id of a child; 0 while it does not run."""
        return next((record.pid for record in read_records(self.data_dir) if record.name == name), 0)

    def kill(self, name: str) -> int:
        """Kill a child hard and return the process id that it had."""
        pid = self.pid_of(name)
        assert pid
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self) -> int:
        """Stop it in order and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def wait_end(self) -> int:
        """Wait for its end, keep its output, and return its exit status."""
        self.output, _ = self.process.communicate(timeout=60)
        return self.process.returncode

    def get(self, path: str) -> int:
        """HTTP status of a page without a key; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def chat(self) -> int:
        """HTTP status of one small chat completion; 0 when the connection broke."""
        body = {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        headers = {"Authorization": f"Bearer {self.ready['api_key']}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.ready['base_url']}/chat/completions", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0
