"""Suites that others have published, unmodified, against a running instance.

The official client's own tests come from its source distribution, in the version that is installed here. Where one of
them asks for what the product does not offer, it must fail for the reason given here and for no other.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from llm_comply.tests import get_tests
from openai import BadRequestError, OpenAI

from tests import stack
from tests.stack import ROOT, Stack, wait_until

pytestmark = pytest.mark.timeout(600)

KEEP = ROOT / "build" / "suites"
SUITE_KEY = "My API Key"
SUITE_MODELS = ("gpt-6-astra", "gpt-3.5-turbo-instruct")
FETCH_S, RUN_S = 240.0, 240.0

MODES = {
    "Models": ("loose", "strict"),
    "AsyncModels": ("loose", "strict", "aiohttp"),
    "Completions": ("loose", "strict"),
    "AsyncCompletions": ("loose", "strict", "aiohttp"),
}
_ADD_KEY = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_admin.settings"
import django
django.setup()
from tenants.keys import key_digest
from tenants.models import ApiKey, Tenant
digest = key_digest(sys.argv[1]).hex()
ApiKey.objects.create(tenant=Tenant.objects.get(slug="demo"), name="suite", prefix="suite", digest=digest)
"""
_VARIANTS = ("method", "raw_response", "streaming_response")


@dataclass(frozen=True, slots=True)
class Inapplicable:
    """Tests of the suite that ask for what there is not.

    Attributes:
        tests: names without class and mode.
        refusal: what the gateway says to each of them.
        reason: why that is right.
    """

    tests: tuple[str, ...]
    refusal: str
    reason: str


@dataclass(frozen=True, slots=True)
class Suite:
    """One file of the suite: how many of its tests pass, and why the rest do not apply."""

    file: str
    classes: tuple[str, str]
    passing: int
    inapplicable: tuple[Inapplicable, ...]


SUITES = (
    Suite(
        "test_models.py",
        ("Models", "AsyncModels"),
        40,
        (
            Inapplicable(
                tuple(f"test_{variant}_delete" for variant in _VARIANTS),
                "Not allowed to DELETE here",
                "clients cannot delete a model: operators decide what is served",
            ),
        ),
    ),
    Suite(
        "chat/test_completions.py",
        ("Completions", "AsyncCompletions"),
        45,
        (
            Inapplicable(
                tuple(f"test_method_create_with_all_params_overload_{number}" for number in (1, 2)),
                "Invalid ",
                "sends every parameter with a placeholder: no token at all, a bias for the token 'foo', a web search",
            ),
            Inapplicable(
                tuple(f"test_{variant}_{act}" for variant in _VARIANTS for act in ("retrieve", "update", "delete")),
                "Invalid URL",
                "answers are not stored, so there are none to read, change or delete",
            ),
            Inapplicable(
                (*(f"test_{variant}_list" for variant in _VARIANTS), "test_method_list_with_all_params"),
                "Not allowed to GET here",
                "answers are not stored, so there are none to list",
            ),
        ),
    ),
    Suite(
        "test_completions.py",
        ("Completions", "AsyncCompletions"),
        30,
        (
            Inapplicable(
                tuple(f"test_method_create_with_all_params_overload_{number}" for number in (1, 2)),
                "Invalid ",
                "sends every parameter with a placeholder: the best of none, a bias for the token 'foo', a suffix",
            ),
        ),
    ),
)


@pytest.fixture(scope="session")
def suite() -> Path:
    """The client's source distribution, fetched once and kept."""
    name = f"openai-{version('openai')}"
    if not (KEEP / name / "tests").is_dir():
        wanted = f"openai=={version('openai')}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "openai", "-d", str(KEEP)]
        subprocess.run([*command, wanted], check=True, timeout=FETCH_S, stdout=subprocess.DEVNULL)
        with tarfile.open(KEEP / f"{name}.tar.gz") as archive:
            archive.extractall(KEEP, filter="data")
    return KEEP / name


@pytest.fixture(scope="module")
def suites_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An instance that knows the models and the key that the suite uses."""
    data_dir = tmp_path_factory.mktemp("suites") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--no-flower")
    environ = {"SLUICE_MODEL_ALIASES": ",".join(SUITE_MODELS)}
    with stack.start(data_dir, *options, environ=environ) as running:
        add_key(running, SUITE_KEY)
        yield running


def add_key(running: Stack, text: str) -> None:
    """Give the demo tenant a key of a form that the product itself never makes; wait until the gateway knows it."""
    environ = {**os.environ, "SLUICE_DATA_DIR": str(running.data_dir)}
    subprocess.run([sys.executable, "-c", _ADD_KEY, text], cwd=ROOT, env=environ, check=True, timeout=60)
    with running.http(headers={"authorization": f"Bearer {text}"}) as client:
        wait_until(lambda: client.get("/models").is_success, 20)


@pytest.fixture(scope="module")
def suites_client(suites_stack: Stack) -> Iterator[OpenAI]:
    with suites_stack.client() as client:
        yield client


@pytest.fixture(scope="module")
def report(suite: Path, suites_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What became of each test of the suite, in JUnit's form."""
    report = tmp_path_factory.mktemp("suites") / "report.xml"
    options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:django", f"--junitxml={report}"]
    files = [f"tests/api_resources/{part.file}" for part in SUITES]
    environ = {"TEST_API_BASE_URL": suites_stack.base_url, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-B", "-m", "pytest", *options, *files]
    subprocess.run(command, cwd=suite, env=environ, timeout=RUN_S, check=False, stdout=subprocess.DEVNULL)
    return report


def read_report(report: Path, file: str) -> tuple[dict[str, str], int]:
    """Message by failed test of one file, and how many of it passed."""
    module = f"tests.api_resources.{file.removesuffix('.py').replace('/', '.')}."
    cases = [case for case in ElementTree.parse(report).iter("testcase") if case.attrib["classname"].startswith(module)]
    failed = {
        f"{case.attrib['classname'].removeprefix(module)}::{case.attrib['name']}": problem.attrib["message"]
        for case in cases
        for problem in case
    }
    return failed, len(cases) - len(failed)


@pytest.mark.stack
@pytest.mark.parametrize("part", SUITES, ids=lambda part: part.file)
def test_the_clients_own_tests_pass_as_far_as_they_apply(report: Path, part: Suite) -> None:
    failed, passed = read_report(report, part.file)
    expected = {
        f"Test{name}::{test}[{mode}]": group.refusal
        for group in part.inapplicable
        for test in group.tests
        for name in part.classes
        for mode in MODES[name]
    }
    assert set(failed) - set(expected) == set(), "the suite fails where it should apply"
    assert set(expected) - set(failed) == set(), "applies by now: take it off the list"
    assert [name for name, refusal in expected.items() if refusal not in failed[name]] == []
    assert passed == part.passing


# --- the values that the suite sends all at once, one at a time -------------------------------------------------------

MESSAGE: list[Any] = [{"role": "developer", "name": "name", "content": "string"}]
TOOL = {"name": "name", "description": "description", "parameters": {"foo": "bar"}, "strict": True}
CHAT_TAKEN: dict[str, Any] = {
    "audio": {"format": "wav", "voice": "alloy"},
    "frequency_penalty": -2,
    "function_call": "none",
    "logprobs": True,
    "metadata": {"foo": "string"},
    "modalities": ["text"],
    "n": 1,
    "parallel_tool_calls": True,
    "prediction": {"content": "string", "type": "content"},
    "presence_penalty": -2,
    "prompt_cache_key": "prompt-cache-key-1234",
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    "prompt_cache_retention": "in_memory",
    "reasoning_effort": "none",
    "response_format": {"type": "text"},
    "safety_identifier": "safety-identifier-1234",
    "seed": -9007199254740991,
    "service_tier": "auto",
    "stop": "\n",
    "store": True,
    "stream": True,
    "stream_options": {"include_obfuscation": True, "include_usage": True},
    "temperature": 1,
    "tool_choice": "none",
    "tools": [{"type": "function", "function": TOOL}],
    "top_logprobs": 0,
    "top_p": 1,
    "user": "user-1234",
    "verbosity": "low",
}
CHAT_REFUSED: dict[str, Any] = {
    "functions": [{"name": "name", "description": "description", "parameters": {"foo": "bar"}}],
    "logit_bias": {"foo": 0},
    "max_completion_tokens": 0,
    "max_tokens": 0,
    "moderation": {"model": "model", "policy": {"input": {"mode": "score"}, "output": {"mode": "score"}}},
    "stream_options": {"include_usage": True},
    "web_search_options": {"search_context_size": "low"},
}
COMPLETIONS_TAKEN: dict[str, Any] = {
    "echo": True,
    "frequency_penalty": -2,
    "logprobs": 0,
    "max_tokens": 16,
    "n": 1,
    "presence_penalty": -2,
    "seed": 0,
    "stop": "\n",
    "temperature": 1,
    "top_p": 1,
    "user": "user-1234",
}
COMPLETIONS_REFUSED: dict[str, Any] = {"best_of": 0, "logit_bias": {"foo": 0}, "suffix": "test."}


@pytest.fixture
def chat(suites_client: OpenAI) -> Callable[..., Any]:
    return lambda **options: suites_client.chat.completions.create(
        **{"model": SUITE_MODELS[0], "messages": MESSAGE, **options}
    )


@pytest.fixture
def complete(suites_client: OpenAI) -> Callable[..., Any]:
    return lambda **options: suites_client.completions.create(
        **{"model": SUITE_MODELS[1], "prompt": "This is a test.", **options}
    )


@pytest.mark.stack
def test_all_other_parameters_are_taken_together(chat: Callable[..., Any], complete: Callable[..., Any]) -> None:
    assert list(chat(**CHAT_TAKEN))
    assert complete(**COMPLETIONS_TAKEN).choices


@pytest.mark.stack
@pytest.mark.parametrize("name", CHAT_REFUSED)
def test_what_a_chat_cannot_have_is_refused_by_name(chat: Callable[..., Any], name: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        chat(**{name: CHAT_REFUSED[name]})
    assert refused.value.param == name


@pytest.mark.stack
@pytest.mark.parametrize("name", COMPLETIONS_REFUSED)
def test_what_a_completion_cannot_have_is_refused_by_name(complete: Callable[..., Any], name: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        complete(**{name: COMPLETIONS_REFUSED[name]})
    assert refused.value.param == name


# --- llm-comply -------------------------------------------------------------------------------------------------------

COMPLIANCE = [test.id for test in get_tests("openai-chat")]
NOT_PASSED = {
    "chat-image-input": ("failed", "HTTP 400 (expected [200])"),  # models here read text only
    "chat-reasoning-summary": ("skipped", "reasoning requires o-series or gpt-5 models"),  # it goes by the model's name
}
PATIENCE_S, TRIES = 60.0, 4


def test_the_compliance_suite_has_nine_tests_of_which_seven_pass() -> None:
    assert len(COMPLIANCE) == 9
    assert len(set(COMPLIANCE) - set(NOT_PASSED)) == 7


@pytest.mark.parametrize("name", COMPLIANCE)
def test_the_compliance_suite_passes_as_far_as_it_applies(product: Stack, model: str, name: str) -> None:
    result = comply(product, model, name)
    status, error = NOT_PASSED.get(name, ("passed", None))
    assert (result["status"], *result.get("errors", [])[:1]) == (status, *([error] if error else []))


def comply(product: Stack, model: str, name: str) -> dict[str, Any]:
    """Result of one test. None sets a temperature or a bound, so a small model may ramble: then it is asked again."""
    where = ["-u", product.base_url, "-k", product.api_key, "-m", model, "--timeout", str(2 * PATIENCE_S)]
    script = "import sys; from llm_comply.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "--format", "openai-chat", *where, "--json", "-f", name]
    for _ in range(TRIES):
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, timeout=PATIENCE_S, check=False, capture_output=True)
            (result,) = json.loads(done.stdout)["results"]
            return dict(result)
    raise AssertionError(f"no end of the answer in {TRIES} times {PATIENCE_S:g} s")
