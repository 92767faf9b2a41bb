"""Prometheus figures. Label sets are bounded: class, model, outcome, reason, tenants up to a number; no request."""

from prometheus_client import Counter, Gauge, Histogram, start_http_server

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

requests = Counter("sluice_requests_total", "Requests that ended, by how.", ["model", "qos_class", "outcome"])
refusals = Counter("sluice_refusals_total", "Requests refused before they were admitted.", ["reason"])
prompt_counts = Counter(
    "sluice_prompt_counts_total",
    "Prompts counted before admission: with the model's own tokenizer, or estimated from their bytes.",
    ["model", "how"],
)
cache_requests = Counter(
    "sluice_cache_requests_total",
    "By what kept answers did for a request: hit_local, hit_store, miss, coalesced, stale, bypass (none may be kept).",
    ["outcome"],
)
cache_stored = Counter("sluice_cache_stored_total", "Answers that were kept in the store.")
cache_refused = Counter(
    "sluice_cache_refused_total",
    "Computed answers that were not kept: cut_short, unknown_form, too_long, other_version, continued, store_away.",
    ["reason"],
)
cache_bytes = Gauge(
    "sluice_cache_bytes", "Bytes that kept answers take, by level: local (this process), store.", ["level"]
)
cache_entries = Gauge("sluice_cache_entries", "Kept answers, by level: local (this process), store.", ["level"])
cache_local_bytes = Gauge("sluice_cache_local_bytes", "Bytes that the first level of kept answers takes.")
cache_local_max_bytes = Gauge("sluice_cache_local_max_bytes", "Bytes that it may take.")
cache_local_entries = Gauge("sluice_cache_local_entries", "Answers in it.")
cache_local_hits = Counter("sluice_cache_local_hits_total", "Look-ups that found an answer in it.")
cache_local_misses = Counter("sluice_cache_local_misses_total", "Look-ups that did not.")
cache_local_evictions = Counter("sluice_cache_local_evictions_total", "Answers that left it for want of room.")
cache_local_k = Gauge("sluice_cache_local_k", "K of LRU-K by which it evicts; 0 for another policy.")
cache_local_policy = Gauge("sluice_cache_local_policy", "1 for the policy by which it evicts.", ["policy"])
cache_local_watermark = Gauge("sluice_cache_local_watermark_ratio", "95th percentile of used / max, last five minutes.")
cache_local_ceiling = Gauge("sluice_cache_local_ceiling_ratio", "Part of the look-ups that any cache could have hit.")
cache_ghost_hit_rate = Gauge("sluice_cache_ghost_hit_ratio", "What each policy would have hit.", ["policy"])
cache_tuning_paused = Gauge("sluice_cache_tuning_paused", "1 while a slow eviction holds K still.")
replays = Counter("sluice_replays_total", "Answers given again to a repeated idempotency key.")
first_token = Histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "Arrival to first frame.",
    ["gen_ai_request_model", "qos_class", "tenant"],
    buckets=SECONDS,
)
duration = Histogram(
    "gen_ai_server_request_duration_seconds",
    "Arrival to end.",
    ["gen_ai_request_model", "qos_class", "tenant"],
    buckets=SECONDS,
)
output_token = Histogram(
    "gen_ai_server_time_per_output_token_seconds",
    "From the first token to the last, for each token after the first.",
    ["gen_ai_request_model", "qos_class"],
    buckets=SECONDS,
)
window_wait = Histogram(
    "sluice_window_wait_seconds", "From a window's first request to its ticket.", ["qos_class"], buckets=SECONDS
)
window_items = Histogram(
    "sluice_window_items",
    "Requests of a window.",
    ["qos_class", "closed_by"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
in_flight = Gauge("sluice_requests_in_flight", "Connections that wait for an answer.")
bulk_requests = Counter(
    "sluice_bulk_requests_total", "Requests of batches that have a result: completed or failed.", ["outcome"]
)
bulk_retries = Counter(
    "sluice_bulk_retries_total", "Requests of batches that are to be sent again, by why.", ["reason"]
)
bulk_jobs = Gauge("sluice_bulk_jobs", "Batches that have not ended; each bulk process tells the same.", ["status"])
rings = Counter("sluice_tickets_published_total", "Celery messages published.", ["qos_class"])
ring_failures = Counter(
    "sluice_ticket_failures_total", "Tickets that the broker did not take; the workers look anyway."
)

queue_wait = Histogram(
    "sluice_queue_wait_seconds", "Waiting until the claim.", ["qos_class", "tenant"], buckets=SECONDS
)
queue_wait_over = Counter(
    "sluice_queue_wait_over_tolerance_total",
    "Requests that waited longer than their class tolerates: 10 ms, 200 ms, 5 s.",
    ["qos_class"],
)
batch_size = Histogram(
    "sluice_batch_items", "Items of one claim.", ["trigger"], buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256)
)
running = Gauge("sluice_items_running", "Items on this worker's engine.")
tokens = Counter(
    "sluice_tokens_total",
    "Tokens by kind: prompt, cached (part of prompt), completion.",
    ["model", "qos_class", "tenant", "kind"],
)
computed = Counter(
    "sluice_engine_tokens_total",
    "Tokens as the engine itself counted them: prompt, cached (part of it), generated.",
    ["kind"],
)
in_flight_cap = Gauge("sluice_in_flight_cap_sequences", "Sequences that this worker gives its engine at most now.")
slices = Counter("sluice_slices_total", "Tickets that went out in slices, one for each worker with room.", ["how"])
padding = Counter("sluice_padded_tokens_total", "Tokens of padded passes.", ["kind"])
quarantined = Counter("sluice_quarantined_total", "Requests refused for good after two engines died under them.")
retries = Counter("sluice_rollbacks_total", "Items that went back to the ready set.", ["cause"])
engine_up = Gauge("sluice_engine_ready", "1 while this worker's engine is in service.")
probe_failures = Counter("sluice_probe_failures_total", "Known-answer probes that failed.")

traces = Counter(
    "sluice_traces_total",
    "Requests that were recorded, by why all their moments are kept: failed, retried, slow, sampled, or row (none).",
    ["why"],
)
traces_dropped = Counter(
    "sluice_traces_dropped_total", "Requests of which nothing could be recorded: waiting (too many).", ["reason"]
)
traces_stored = Counter("sluice_traces_stored_total", "Requests that were stored.")

settled = Counter("sluice_settled_total", "Usage rows written.")
settle_doubles = Counter("sluice_settle_doubles_total", "Settlements that had been written before.")
set_aside = Counter("sluice_settlements_set_aside_total", "Settlements that no row can be made of.")
cost = Counter(
    "sluice_cost_total", "Cost of settled requests, in the currency of the price list.", ["model", "qos_class"]
)
differences = Gauge(
    "sluice_reconcile_differences", "Figures that differed at the latest reconciliation: repaired, open.", ["state"]
)
budget_warnings = Counter(
    "sluice_budget_warnings_total",
    "Attempts to tell that a budget comes to its end, by channel and result: told, failed.",
    ["channel", "result"],
)
shadow = Counter(
    "sluice_shadow_total",
    "Last good answers on this machine's disk: kept, dropped (too many waited), failed, found, missing, erased.",
    ["what"],
)
prompt_lookups = Counter(
    "sluice_prompt_lookups_total",
    "Look-ups of stored prompts by where they ended: form, filter, negative, local, truth, store, database, limited, "
    "failed.",
    ["where"],
)
prompt_absent_queries = Counter(
    "sluice_prompt_absent_queries_total", "Questions to the database about stored prompts that do not exist."
)
prompts_cold = Gauge("sluice_prompts_cold", "Stored prompts that were missed lately, as this process counts them.")
prompt_warm_ups = Counter(
    "sluice_prompt_warm_ups_total",
    "Stored prompts that kept being missed: row (put into the store), prefilled, warm (an engine has the prefix), "
    "short, over_budget, failed.",
    ["what"],
)
swept = Counter("sluice_swept_total", "Items that the sweep put right.", ["what"])

filter_looks = Counter(
    "sluice_filter_looks_total", "Looks into a filter by what it said: no, maybe, unknown.", ["filter", "result"]
)
filter_absent = Counter(
    "sluice_filter_false_positives_total", "Times that a filter said maybe of what does not exist.", ["filter"]
)
filter_estimate = Gauge(
    "sluice_filter_false_positives_estimated_ratio",
    "Share of what does not exist that a filter lets through, reckoned from its fill.",
    ["filter"],
)
filter_fill = Gauge("sluice_filter_fill_ratio", "Share of a filter's bits that are set.", ["filter"])
filter_generation = Gauge(
    "sluice_filter_generation_begun_timestamp_seconds", "Begin of the generation in use; 0 for none.", ["filter"]
)
filter_rebuilds = Counter(
    "sluice_filter_rebuilds_total",
    "Generations that this process made, by why: lost, full, log (too many deltas), asked.",
    ["filter", "why"],
)
filter_gaps = Counter(
    "sluice_filter_gaps_total", "Times that this process could not follow a filter and began anew.", ["filter"]
)

hot_counted = Counter(
    "sluice_hot_keys_counted_total",
    "Uses of keys: counted, or over the share of a window that one tenant is counted for.",
    ["result"],
)
hot_keys = Gauge("sluice_hot_keys", "Keys of the whitelist in this process: hot, pinned, banned.", ["state"])
hot_age = Gauge("sluice_hot_keys_age_seconds", "Since the whitelist was last compared with the store.")


MAX_TENANTS = 100
OTHER_TENANTS = "other"
_tenants: set[str] = set()


def tenant(slug: str) -> str:
    """A tenant's label: its own name for the first ``MAX_TENANTS`` that this process meets, one name for all others."""
    if slug not in _tenants:
        if len(_tenants) >= MAX_TENANTS:
            return OTHER_TENANTS
        _tenants.add(slug)
    return slug


def serve(port: int, host: str = "127.0.0.1") -> None:
    """Answer ``/metrics`` on a port of this process's own; 0 for not at all."""
    if port:
        start_http_server(port, addr=host)
