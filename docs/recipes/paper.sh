#!/usr/bin/env bash
# The paper's comparison: prunes with each method, trains, serves, evaluates and writes the tables. To resume, run it again.
exec python -m asap.paper run "$(dirname "$0")/paper/paper-qwen7b.toml" "$@"
