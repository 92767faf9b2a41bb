"""Names of headers, log fields and metric labels, in one place."""

REQUEST_ID_HEADER = b"x-request-id"
TRACEPARENT_HEADER = b"traceparent"
TRACERESPONSE_HEADER = b"traceresponse"
MODEL_VERSION_HEADER = b"x-sluice-model-version"
BATCH_ID_HEADER = b"x-sluice-batch-id"

REQUEST_ID = "request_id"
TRACE_ID = "trace_id"
TENANT_SCOPE = "tenant_scope"
MODEL_VERSION = "model_version"
BATCH_ID = "batch_id"

# Attributes of spans: OpenTelemetry's conventions for generative AI where they have a name, our own under "sluice.".
OPERATION_NAME = "gen_ai.operation.name"
REQUEST_MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
OWN = "sluice."
