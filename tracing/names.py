"""Names of headers, log fields and metric labels, in one place."""

REQUEST_ID_HEADER = b"x-request-id"
TRACEPARENT_HEADER = b"traceparent"

REQUEST_ID = "request_id"
TRACE_ID = "trace_id"
TENANT_SCOPE = "tenant_scope"
MODEL_VERSION = "model_version"
BATCH_ID = "batch_id"
