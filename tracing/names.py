"""Names of headers, log fields and metric labels, in one place."""

REQUEST_ID_HEADER = b"x-request-id"
TRACEPARENT_HEADER = b"traceparent"

REQUEST_ID = "request_id"
TRACE_ID = "trace_id"
TENANT_SCOPE = "tenant_scope"
MODEL_VERSION = "model_version"
BATCH_ID = "batch_id"
ITEM_SEQ = "item_seq"
RETRY_ATTEMPT = "retry_attempt"
ROLLBACK_CAUSE = "rollback_cause"
DELIVERED_TOKENS = "delivered_tokens"

# Attributes of spans: OpenTelemetry's conventions for generative AI where they have a name, our own under "sluice.".
OPERATION_NAME = "gen_ai.operation.name"
REQUEST_MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
OWN = "sluice."
