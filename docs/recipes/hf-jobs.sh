#!/usr/bin/env bash
# A run as Hugging Face Jobs: each job does one part.
#
#   IMAGE=registry.example.com/asap:0.1.0 FROM=s3://lake/traces/ TO=s3://lake/pruned/ docs/recipes/hf-jobs.sh
#
# Build the image from the Dockerfile of asap. The variables of the object store are secrets, which hf reads from the
# environment. To resume, run the script again. A job whose part is done ends at once.
set -euo pipefail

PARTS=${PARTS:-16}   # the same for all submissions
for part in $(seq 1 "$PARTS"); do
    hf jobs run --detach --flavor "${FLAVOR:-cpu-xl}" --timeout 24h --attempts 3 \
        --secrets AWS_ACCESS_KEY_ID --secrets AWS_SECRET_ACCESS_KEY --env AWS_REGION="${AWS_REGION:-us-east-1}" \
        --env FROM="$FROM" --env TO="$TO" --env PART="$part/$PARTS" \
        "$IMAGE" /bin/sh -c 'exec asap run asap --from "$FROM" --to "$TO" --part "$PART" --log json'
done
