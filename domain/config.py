"""Sluice's settings: one frozen record, parsed strictly from an environment that is handed in.

``gateway_admin/settings.py`` is the only module that reads the real environment; everybody else uses
``django.conf.settings.SLUICE``, which is a :class:`Config`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from domain.qos import QosClass


class ConfigError(ValueError):
    """A setting has a value that cannot be used; the message names the setting and what it takes."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, each read from ``SLUICE_<NAME>`` (or the file named by ``SLUICE_<NAME>_FILE``).

    Attributes:
        data_dir: where the database, the broker's files, logs and ready.json live.
        production: refuse insecure settings; secure cookies and headers on.
        secret_key: Django's secret; made and kept in the data directory by ``manage.py up``.
        allowed_hosts: host names the server answers to, comma separated.
        https: the gateway is reached through TLS: secure cookies, HSTS.
        trusted_proxies: addresses or networks of proxies whose X-Forwarded-For is believed, comma separated.
        currency: of the price list, as answers and pages name it.
        database_url: empty for SQLite in the data directory, else ``postgres://...``.
        redis_url: the Valkey or Redis that holds the ready sets; ``redis://host:port`` without database number.
        ready_db: database number of the ready sets.
        broker_db: database number of Celery's queues.
        result_db: database number of Celery's results, which only chords of background slices use.
        engine: "vllm", "padded" (embedding models) or "simulator".
        model: Hugging Face id or path; "smollm2-135m-instruct" and "all-minilm-l6-v2" are prepared from packages.
        served_model: the name that clients use; empty for the last part of ``model``.
        model_aliases: further names for it, comma separated.
        models_dir: where prepared models are kept, shared by all instances of this user.
        dtype: "auto" (float32 on a CPU, the model's own on a GPU), "float32", "bfloat16", "float16".
        max_model_len: tokens of prompt and answer together; 0 for the model's own.
        max_num_seqs: sequences an engine runs at once (W4).
        max_num_batched_tokens: tokens a step (W4).
        kv_cache_gib: GiB of KV cache on a CPU.
        sim_profile: the simulator's step-time profile.
        sim_seed: the simulator's seed.
        sim_journal: file to which the simulator adds a line for each request that it ends, with its own counts;
            empty for none.
        gateway_id: name of this gateway process, unique among the live ones; set by the supervisor.
        worker_id: name of this worker process, likewise.
        worker_classes: classes that this worker serves, comma separated; "p0" alone makes it a dedicated one (W3).
        worker_cores: CPU cores that this worker's processes are pinned to, comma separated; empty for all.
        flower_url: address of Flower as operators reach it, linked from the admin; empty for no link.
        metrics_port: port of this process's own /metrics; 0 for none.
        metrics_host: address on which it listens; anything but loopback is for a network that is yours alone.
        lease_ttl_ms: a worker or gateway silent for longer is taken for dead.
        heartbeat_ms: how often each says that it lives.
        probe_interval_s: seconds between two known-answer probes of an engine; 0 for the one at start only.
        window_ms: time after which a window of waiting P1 requests closes (W1); it never waits while there is room.
        window_background_ms: time after which a window of waiting P2 requests closes (W1).
        window_max_items: size at which a window closes at the latest (W1, W2).
        reserve_p0_share: most of an engine's sequences that are left free for P0 while P0 requests come.
        reserve_p2_share: share of an engine's sequences that P2 leaves free for the more urgent classes.
        min_in_flight: the in-flight cap never falls below so many sequences.
        tpot_goal_p0_ms: time per output token above which the in-flight cap falls while P0 runs; 0 for no goal.
        tpot_goal_p1_ms: time per output token above which the in-flight cap falls while P1 runs; 0 for no goal.
        ageing_p1_ms: a P1 request that has waited so long gets its turn beside the more urgent class.
        ageing_p2_ms: a P2 request that has waited so long gets its turn beside the more urgent classes.
        queue_deadline_p0_ms: a P0 request that has waited so long is refused with a reason, never run.
        queue_deadline_p1_ms: a P1 request that has waited so long is refused with a reason, never run.
        queue_deadline_p2_ms: a P2 request that has waited so long is refused with a reason, never run.
        max_waiting_p0: P0 requests of one model that may wait; further ones are refused.
        max_waiting_p1: P1 requests of one model that may wait; further ones are refused.
        max_waiting_p2: P2 requests of one model that may wait; further ones are refused.
        max_waiting_p2_mib: MiB of bodies of waiting P2 requests of one model (W3: bounded memory).
        affinity: a worker prefers requests whose prefix it has served lately, within the slack.
        affinity_slack_tokens: weighted tokens by which such a request may overtake the fair order.
        request_timeout_s: total time of one request, queueing included.
        keep_alive_s: silence after which a stream gets a comment line.
        max_body_bytes: larger bodies are refused with 413.
        default_max_tokens: output tokens reckoned with when a request does not say and no limit counts answers.
        files_dir: where tenants' files lie: one directory that all gateways and bulk processes see; empty for ``files``
            in the data directory.
        max_file_mib: larger uploads are refused with 413.
        files_days: for so long a file is kept that does not say how long.
        bulk_in_flight: requests of batches that one bulk process has waiting and running at once; 0 for a
            quarter more than the sequences that engines run at once.
        idempotency_ttl_s: seconds for which an idempotency key stays used once its request was answered.
        response_cache: answers to equal requests are kept and given again where a plan says so; false for never.
        cache_local_mib: MiB of answers that one gateway process keeps itself (first level).
        cache_store_mib: MiB of answers kept in the store for all gateways (second level).
        cache_max_answer_kib: longer answers are not kept.
        cache_policy: what the first level evicts: "ghost" (chooses among the others by what each would have hit),
            "w11" (LRU-K, K follows the memory watermark), "w11-literal" (the same with the plain hit rate), "lru",
            "lru-2", "lru-3", "lru-5", "arc" or "mq".
        prometheus_url: where the memory watermark is read, such as ``http://127.0.0.1:9090``; empty to reckon it
            from this process's own figures.
        shadow_mib: MiB of last good answers on this machine's disk, for when engines or the store fail; 0 for none.
        filter_library: "rbloom" or "pybloom-live": what filters of stored prompts are made of.
        filter_keys: stored prompts that one generation of the filter holds at most.
        filter_false_positives: share of unknown ids that the filter lets through when it is full.
        hot_keys: keys that are asked for most and are kept in the first level.
        unknown_prompts_per_s: unknown ids of stored prompts that one gateway looks up in the database for one tenant.
        snapshot_poll_ms: how often a gateway looks for changed keys and plans.
        reconcile_interval_s: seconds between two comparisons of usage rows with what was counted elsewhere; 0 for none.
        alert_webhook: URL that is told of every budget that comes to its end, by a POST of JSON; empty for none.
        alert_webhook_secret: signs what webhooks are told, by HMAC-SHA256; empty for no signature.
        alert_mail_to: addresses that are told the same by mail, comma separated.
        alert_mail_from: sender of those mails.
        smtp_url: the mail server: ``smtp://user:password@host:port``, ``smtp+starttls://`` or ``smtps://`` for TLS;
            empty for no mail.
        trace_requests: every request is recorded; false to record none.
        trace_sample: share of ordinary requests of which all moments are kept, 0 to 1; of those that failed, were
            retried or were slow they are kept in any case, and one row of every request.
        trace_days: for so long requests can be looked up.
        engine_steps: every step of an engine is kept: how long it took, of what, with how many tokens.
        engine_steps_hours: for so long steps can be looked up.
        trace_model: of each step also the time inside vLLM's model execution; needs ``engine_steps``.
        trace_triton: launches of Triton kernels are counted by name, in vLLM's processes.
        trace_kernels: launches at the GPU driver are counted by stream, with a probe that costs each of them 18 to
            58 us; needs root.
        request_log_mib: MiB of lines about requests, for log shippers, in ``logs/tenant-metrics.jsonl`` of the data
            directory and the files before it; 0 for none.
        otlp_endpoint: where spans go, OTLP over HTTP such as ``http://127.0.0.1:4318``; empty for nowhere.
        log_level: of the JSON log.
    """

    data_dir: Path = Path(".sluice")
    production: bool = False
    secret_key: str = ""
    allowed_hosts: tuple[str, ...] = ("*",)
    https: bool = False
    trusted_proxies: tuple[str, ...] = ()
    currency: str = "USD"
    database_url: str = ""
    redis_url: str = "redis://127.0.0.1:6379"
    ready_db: int = 0
    broker_db: int = 1
    result_db: int = 2
    engine: str = "vllm"
    model: str = "smollm2-135m-instruct"
    served_model: str = ""
    model_aliases: tuple[str, ...] = ()
    models_dir: Path = Path("~/.cache/sluice/models")
    dtype: str = "auto"
    max_model_len: int = 0
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 4096
    kv_cache_gib: float = 1.0
    sim_profile: str = "cpu-2core-smollm2"
    sim_seed: int = 0
    sim_journal: str = ""
    gateway_id: str = ""
    worker_id: str = ""
    worker_classes: tuple[str, ...] = ("p0", "p1", "p2")
    worker_cores: tuple[str, ...] = ()
    flower_url: str = ""
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    lease_ttl_ms: int = 3000
    heartbeat_ms: int = 500
    probe_interval_s: float = 60.0
    window_ms: int = 50
    window_background_ms: int = 500
    window_max_items: int = 100
    reserve_p0_share: float = 0.25
    reserve_p2_share: float = 0.125
    min_in_flight: int = 4
    tpot_goal_p0_ms: float = 0.0
    tpot_goal_p1_ms: float = 0.0
    ageing_p1_ms: int = 5_000
    ageing_p2_ms: int = 30_000
    queue_deadline_p0_ms: int = 10_000
    queue_deadline_p1_ms: int = 60_000
    queue_deadline_p2_ms: int = 600_000
    max_waiting_p0: int = 1_000
    max_waiting_p1: int = 5_000
    max_waiting_p2: int = 50_000
    max_waiting_p2_mib: int = 256
    affinity: bool = True
    affinity_slack_tokens: int = 4096
    request_timeout_s: float = 600.0
    keep_alive_s: float = 10.0
    max_body_bytes: int = 10 * 1024 * 1024
    default_max_tokens: int = 512
    files_dir: str = ""
    max_file_mib: int = 200
    files_days: float = 30.0
    bulk_in_flight: int = 0
    idempotency_ttl_s: int = 86_400
    response_cache: bool = True
    cache_local_mib: int = 64
    cache_store_mib: int = 256
    cache_max_answer_kib: int = 1024
    cache_policy: str = "w11"
    prometheus_url: str = ""
    shadow_mib: int = 1024
    filter_library: str = "rbloom"
    filter_keys: int = 1_048_576
    filter_false_positives: float = 0.01
    hot_keys: int = 1_000
    unknown_prompts_per_s: int = 20
    snapshot_poll_ms: int = 300
    reconcile_interval_s: float = 300.0
    alert_webhook: str = ""
    alert_webhook_secret: str = ""
    alert_mail_to: tuple[str, ...] = ()
    alert_mail_from: str = "sluice@localhost"
    smtp_url: str = ""
    trace_requests: bool = True
    trace_sample: float = 0.05
    trace_days: float = 7.0
    engine_steps: bool = True
    engine_steps_hours: float = 24.0
    trace_model: bool = False
    trace_triton: bool = False
    trace_kernels: bool = False
    request_log_mib: int = 256
    otlp_endpoint: str = ""
    log_level: str = "info"

    @property
    def model_name(self) -> str:
        """The name that clients use for the model."""
        return self.served_model or self.model.rstrip("/").rsplit("/", 1)[-1].lower()

    @property
    def files_path(self) -> Path:
        """The directory of tenants' files."""
        return Path(self.files_dir) if self.files_dir else self.data_dir / "files"

    @property
    def ready_url(self) -> str:
        """URL of the database of the ready sets."""
        return f"{self.redis_url.rstrip('/')}/{self.ready_db}"

    @property
    def broker_url(self) -> str:
        """URL of Celery's broker."""
        return f"{self.redis_url.rstrip('/')}/{self.broker_db}"

    @property
    def result_url(self) -> str:
        """URL of Celery's results."""
        return f"{self.redis_url.rstrip('/')}/{self.result_db}"


SMTP_SCHEMES = ("smtp", "smtp+starttls", "smtps")

_CHOICES: dict[str, tuple[str, ...]] = {
    "engine": ("vllm", "padded", "simulator"),
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "cache_policy": ("w11", "w11-literal", "ghost", "lru", "lru-2", "lru-3", "lru-5", "arc", "mq"),
    "filter_library": ("rbloom", "pybloom-live"),
    "log_level": ("debug", "info", "warning", "error"),
}

_AT_LEAST: dict[str, float] = {
    "max_model_len": 0,
    "max_num_seqs": 1,
    "max_num_batched_tokens": 16,
    "kv_cache_gib": 0.05,
    "ready_db": 0,
    "broker_db": 0,
    "result_db": 0,
    "metrics_port": 0,
    "lease_ttl_ms": 500,
    "heartbeat_ms": 50,
    "probe_interval_s": 0,
    "window_ms": 0,
    "window_background_ms": 0,
    "window_max_items": 1,
    "reserve_p0_share": 0,
    "reserve_p2_share": 0,
    "min_in_flight": 1,
    "tpot_goal_p0_ms": 0,
    "tpot_goal_p1_ms": 0,
    "ageing_p1_ms": 1,
    "ageing_p2_ms": 1,
    "queue_deadline_p0_ms": 1,
    "queue_deadline_p1_ms": 1,
    "queue_deadline_p2_ms": 1,
    "max_waiting_p0": 1,
    "max_waiting_p1": 1,
    "max_waiting_p2": 1,
    "max_waiting_p2_mib": 1,
    "affinity_slack_tokens": 0,
    "request_timeout_s": 1,
    "keep_alive_s": 0.1,
    "max_body_bytes": 1024,
    "default_max_tokens": 1,
    "max_file_mib": 1,
    "files_days": 0.01,
    "bulk_in_flight": 0,
    "idempotency_ttl_s": 1,
    "cache_local_mib": 1,
    "cache_store_mib": 1,
    "cache_max_answer_kib": 1,
    "shadow_mib": 0,
    "filter_keys": 1_000,
    "filter_false_positives": 0.000_001,
    "hot_keys": 1,
    "unknown_prompts_per_s": 1,
    "snapshot_poll_ms": 20,
    "reconcile_interval_s": 0,
    "trace_sample": 0,
    "trace_days": 0.01,
    "engine_steps_hours": 0.01,
    "request_log_mib": 0,
}


def parse_config(environ: Mapping[str, str], read_file: Callable[[str], str]) -> Config:
    """Build the settings from ``environ``.

    ``SLUICE_X_FILE`` names a file that holds the value of ``SLUICE_X``; ``read_file`` reads it.

    Raises:
        ConfigError: an unknown ``SLUICE_`` name, a value of the wrong form, or two settings that do not fit.
    """
    types: dict[str, Any] = {f.name: f.type for f in fields(Config)}
    values: dict[str, Any] = {}
    for key, raw in environ.items():
        if not key.startswith("SLUICE_"):
            continue
        name, text = _read(key, raw, types, read_file)
        if name in values:
            raise ConfigError(f"SLUICE_{name.upper()} and SLUICE_{name.upper()}_FILE are both set: keep one.")
        values[name] = _parse(name, text, types[name])
    return _checked(Config(**values))


def _read(key: str, raw: str, types: Mapping[str, Any], read_file: Callable[[str], str]) -> tuple[str, str]:
    name = key.removeprefix("SLUICE_").lower()
    if name in types:
        return name, raw
    if name.endswith("_file") and name.removesuffix("_file") in types:
        try:
            return name.removesuffix("_file"), read_file(raw).strip()
        except OSError as error:
            raise ConfigError(f"{key}: cannot read the file it names: {error.strerror}.") from error
    raise ConfigError(f"{key} is not a setting of Sluice. See docs/reference/settings.md for those that are.")


def _parse(name: str, text: str, kind: Any) -> Any:
    label = f"SLUICE_{name.upper()}"
    choices = _CHOICES.get(name)
    if choices and text not in choices:
        raise ConfigError(f"{label} must be one of {', '.join(choices)}, not {text!r}.")
    if kind is bool:
        return _parse_bool(label, text)
    if kind in (int, float):
        return _parse_number(label, name, text, kind)
    if kind is Path:
        return Path(text)
    if get_args(kind):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _parse_bool(label: str, text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in known:
        raise ConfigError(f"{label} must be true or false, not {text!r}.")
    return known[text.lower()]


def _parse_number(label: str, name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        number = kind(text)
    except ValueError:
        raise ConfigError(f"{label} must be a number ({kind.__name__}), not {text!r}.") from None
    least = _AT_LEAST.get(name)
    if number != number or (least is not None and number < least):
        raise ConfigError(f"{label} must be at least {least}, not {text}.")
    return number


def _checked(config: Config) -> Config:
    if config.lease_ttl_ms < 3 * config.heartbeat_ms:
        raise ConfigError("SLUICE_LEASE_TTL_MS must be at least three times SLUICE_HEARTBEAT_MS.")
    if len({config.ready_db, config.broker_db, config.result_db}) < 3:
        raise ConfigError("SLUICE_READY_DB, SLUICE_BROKER_DB and SLUICE_RESULT_DB must differ.")
    _check_worker(config)
    _check_alerts(config)
    _check_proxies(config.trusted_proxies)
    for name in ("reserve_p0_share", "reserve_p2_share"):
        if getattr(config, name) > 0.9:
            raise ConfigError(f"SLUICE_{name.upper()} must be at most 0.9: nothing else could run.")
    if config.filter_false_positives > 0.5:
        raise ConfigError("SLUICE_FILTER_FALSE_POSITIVES must be at most 0.5.")
    if not _is_url(config.prometheus_url, ("http", "https")):
        raise ConfigError("SLUICE_PROMETHEUS_URL must be a URL that begins with http:// or https://.")
    return config


def _check_alerts(config: Config) -> None:
    for name, schemes in (("alert_webhook", ("http", "https")), ("smtp_url", SMTP_SCHEMES)):
        if not _is_url(getattr(config, name), schemes):
            # The value is not repeated: it may hold a password.
            raise ConfigError(f"SLUICE_{name.upper()} must be a URL that begins with {' or '.join(schemes)}://.")
    if config.alert_mail_to and not config.smtp_url:
        raise ConfigError("SLUICE_ALERT_MAIL_TO needs a mail server: set SLUICE_SMTP_URL.")


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return not text or (parts.scheme in schemes and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        return False


def _check_worker(config: Config) -> None:
    classes = config.worker_classes
    if not classes or set(classes) - set(QosClass) or len(set(classes)) != len(classes):
        raise ConfigError("SLUICE_WORKER_CLASSES must name some of p0, p1 and p2, each once.")
    if not all(core.isdecimal() for core in config.worker_cores):
        raise ConfigError("SLUICE_WORKER_CORES must be numbers of CPU cores, comma separated.")


def _check_proxies(proxies: tuple[str, ...]) -> None:
    for proxy in proxies:
        try:
            ip_network(proxy)
        except ValueError as error:
            raise ConfigError(f"SLUICE_TRUSTED_PROXIES takes networks such as 10.0.0.0/8: {error}.") from None
