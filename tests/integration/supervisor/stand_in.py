"""A supervisor over shell scripts: ``python stand_in.py DIRECTORY PORT UNITS`` (UNITS is JSON).

Units that are marked as joining come once the others are up.

Signals, sessions and the reaping of orphans concern the whole process, so it runs in one of its own.
"""

import json
import random
import sys
from pathlib import Path

from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.family import Family
from gateway_admin.supervisor.files import write_private
from gateway_admin.supervisor.logs import Logs
from gateway_admin.supervisor.ports import free_port
from gateway_admin.supervisor.signals import Signals
from gateway_admin.supervisor.spawn import adopt_orphans
from gateway_admin.supervisor.stopping import Stopping
from gateway_admin.supervisor.supervisor import StartFailed, Supervisor
from gateway_admin.supervisor.timeline import Timeline
from gateway_admin.supervisor.unit import Kind, Stage, Unit


def main(directory: Path, port: str, units: list[dict[str, str]]) -> int:
    adopt_orphans()
    signals, console, logs = Signals(), Console(sys.stdout), Logs(directory)
    choose = random.Random()
    family = Family(directory, {"PATH": "/usr/bin:/bin"}, logs, lambda: free_port(choose))
    supervisor = Supervisor(family, signals, console, logs, Timeline(), f"http://127.0.0.1:{port}")
    try:
        if supervisor.bring_up([read_unit(unit) for unit in units if "joins" not in unit]):
            write_private(directory / "up", "")
            supervisor.keep_up([read_unit(unit) for unit in units if "joins" in unit])
    except StartFailed as error:
        console.say(f"could not start: {error}")
        return 1
    finally:
        Stopping(family, signals, console).run()
    return 0


def read_unit(told: dict[str, str]) -> Unit:
    return Unit(
        name=told["name"],
        label=told["name"],
        argv=("/bin/bash", "-c", told["script"]) if "script" in told else (sys.executable, "-c", told["python"]),
        kind=Kind.SERVICE,
        stage=Stage[told.get("stage", "FLOWER")],
        after=frozenset(told.get("after", "").split()),
        is_up=Path(told["up_file"]).exists if "up_file" in told else None,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
