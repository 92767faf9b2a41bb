#!/bin/sh
# Puts the lifecycle policy and the index template into Elasticsearch. Running it again changes nothing.
# Usage: ELASTICSEARCH_URL=http://localhost:9200 deploy/elasticsearch/setup.sh
# Credentials: ELASTICSEARCH_API_KEY, or a user and password in a netrc file that NETRC names.
set -eu
url="${ELASTICSEARCH_URL:-http://localhost:9200}"
here="$(cd "$(dirname "$0")" && pwd)"

put() {
  set -- --fail-with-body --silent --show-error --retry 60 --retry-delay 2 --retry-connrefused \
    --request PUT --header 'content-type: application/json' --data-binary "@$here/$2" "$url/$1"
  if [ -n "${NETRC:-}" ]; then set -- --netrc-file "$NETRC" "$@"; fi
  # By standard input: a command line can be read by everybody on the machine.
  if [ -n "${ELASTICSEARCH_API_KEY:-}" ]; then
    printf 'header = "authorization: ApiKey %s"\n' "$ELASTICSEARCH_API_KEY" | curl --config - "$@"
  else
    curl "$@"
  fi
  echo
}

put _ilm/policy/tenant-metrics lifecycle_policy.json
put _index_template/tenant-metrics index_template.json
