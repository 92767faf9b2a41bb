"""Check that every YAML file of the repository can be read, and that the compose file hangs together."""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = "docker-compose.yml"
_SERVICE_NEEDS_ONE_OF = {"image", "build", "extends"}


def main() -> int:
    """Print what is wrong and return the exit status."""
    problems: list[str] = []
    for name in _yaml_files():
        try:
            content = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            problems.append(f"{name}: {error}")
            continue
        if name == COMPOSE:
            problems += [f"{name}: {problem}" for problem in compose_problems(content)]
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


def compose_problems(content: object) -> list[str]:
    """What is wrong with a compose file: services without an image, names that lead nowhere."""
    if not isinstance(content, dict) or not isinstance(content.get("services"), dict):
        return ["no services"]
    services: dict[str, dict[str, object]] = content["services"]
    problems: list[str] = []
    for name, service in services.items():
        if not _SERVICE_NEEDS_ONE_OF & service.keys():
            problems.append(f"{name} has neither image nor build")
        problems += [
            f"{name} waits for {other}, which is no service"
            for other in _names(service.get("depends_on"))
            if other not in services
        ]
        problems += [
            f"{name} uses volume {volume}, which is not declared"
            for volume in _named_volumes(service)
            if volume not in _names(content.get("volumes"))
        ]
    return problems


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list | dict) else []


def _named_volumes(service: dict[str, object]) -> list[str]:
    sources = [text.partition(":")[0] for text in _names(service.get("volumes"))]
    return [source for source in sources if not source.startswith((".", "/", "~"))]


def _yaml_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.yml", "*.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split("\n")[:-1]


if __name__ == "__main__":
    sys.exit(main())
