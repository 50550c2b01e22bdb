#!/usr/bin/env bash
# The flow of the ASAP paper with a served 7B model: prune, train, evaluate, compare.
#
#   MODEL=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B TRACES=traces/ GSM8K=test.jsonl docs/recipes/paper.sh
#
# You need a GPU with room for the model, vLLM, and a trainer that writes TRAINED/original and TRAINED/pruned (step 3). Set
# ENDPOINT to use a server that is already running. A command that is repeated resumes.
set -euo pipefail

MODEL=${MODEL:-deepseek-ai/DeepSeek-R1-Distill-Qwen-7B}   # the scoring model, and the one that is trained
ANCHOR=${ANCHOR:-Qwen/Qwen3-8B}                           # writes direct thoughts
TRACES=${TRACES:?the location of the traces}
GSM8K=${GSM8K:?test.jsonl of GSM8K}
OUT=${OUT:-out/paper}
TRAINED=${TRAINED:-$OUT/trained}
ENDPOINT=${ENDPOINT:-}

serve() {   # serve MODEL NAME
    if [ -n "$ENDPOINT" ]; then url=$ENDPOINT; return; fi
    url=http://localhost:8000/v1
    vllm serve "$1" --served-model-name "$2" --port 8000 & server=$!
    trap 'kill $server' EXIT
    until curl --silent --fail "$url/models" > /dev/null; do sleep 5; done
}
stop() {
    if [ -n "$ENDPOINT" ]; then return; fi
    kill "$server"; wait "$server" || true; trap - EXIT
}

# 1. Prune. Without --set asap.refine.max_tokens, a chain may keep 4,096 tokens, as in the paper.
serve "$ANCHOR" anchor
asap run asap --from "$TRACES" --to "$OUT/pruned" --set asap.scorer.model="$MODEL" --set asap.scorer.dtype=bf16 \
    --set asap.anchor.provider=openai --set asap.anchor.base_url="$url" --set asap.anchor.model=anchor
stop

# 2. Write the tokens that a trainer reads: of the original chains and of the pruned ones.
asap run examples --from "$TRACES" --to "$OUT/original-tokens" --originals none --set asap.scorer.model="$MODEL"
asap run examples --from "$OUT/pruned" --to "$OUT/pruned-tokens" --originals none --set asap.scorer.model="$MODEL"
for arm in original pruned; do
    [ -d "$OUT/$arm-set" ] || asap export "$OUT/$arm-tokens" --to "$OUT/$arm-set"
done

# 3. Train both arms with your trainer on GPUs: see docs/training.md. Each model goes to $TRAINED/ARM.
for arm in original pruned; do
    if [ ! -f "$TRAINED/$arm/config.json" ]; then
        echo "train $MODEL on $OUT/$arm-set, write the model to $TRAINED/$arm, and run this script again" >&2
        exit 1
    fi
done

# 4. Evaluate both at the budgets of the paper, and compare.
for arm in original pruned; do
    serve "$TRAINED/$arm" "$arm"
    asap eval --bench gsm8k --data "$GSM8K" --endpoint "$url" --model "$arm" --budget 1024,2048 --to "$OUT/eval/$arm"
    stop
done
asap eval --compare "$OUT/eval/original" "$OUT/eval/pruned"
