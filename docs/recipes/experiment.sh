#!/usr/bin/env bash
# One arm of asap experiment by hand: does a model that is trained on chains pruned by ARM answer better than its base model?
#
#   ARM=asap docs/recipes/experiment.sh
#
# The sizes are those of the preset mini. A command that is repeated resumes.
set -euo pipefail

ARM=${ARM:-asap}               # a pipeline
SHARE=${SHARE:-0.25}           # of the tokens of a chain
SEED=${SEED:-1}
CONCISE_ROWS=${CONCISE_ROWS:-12000}  # sums whose concise chains the base model learns first
BASE_ROWS=${BASE_ROWS:-24000}  # all sums that the base model learns
ROWS=${ROWS:-1200}             # sums that are pruned
HELD_OUT=${HELD_OUT:-400}      # sums for the evaluation
CONFIG=${CONFIG:?config.json of the model, as asap experiment writes it to its folder}
OUT=${OUT:-out/by-hand}

# 1. Sums, in four disjoint parts. The training data has the prompt that asap eval asks with.
prompt="Solve this problem. Reason step by step, and write the final answer in \\boxed{}."
question="'$prompt' || E'\\n\\n' || question AS question"
until=$((BASE_ROWS + ROWS))
if [ ! -d "$OUT/sums" ]; then
    asap sample --family sums --rows $((until + HELD_OUT)) --seed "$SEED" --to "$OUT/sums"
fi
copy() { asap sql -q -c "COPY (SELECT $1 FROM '$OUT/sums/sums.parquet' WHERE $2 ORDER BY id) TO '$OUT/data/$3'"; }
copy "id, $question, concise AS cot, answer" "id < $CONCISE_ROWS" concise.parquet
copy "id, $question, CASE WHEN id % 5 < 2 THEN concise ELSE cot END AS cot, answer" "id >= $CONCISE_ROWS AND id < $BASE_ROWS" mixed.parquet
copy "id, $question, cot, answer" "id >= $BASE_ROWS AND id < $until" original.parquet
copy "question, '#### ' || cot_answer(answer) AS answer" "id >= $until" held-out.json

# 2. The base model, from scratch: first from concise chains, then from verbose chains, of which two in five are concise.
step=(--micro-batch 8 --accumulate 1 --clip 1 --max-length 1024 --seed "$SEED")
asap train --init "$CONFIG" --data "$OUT/data/concise.parquet" --out "$OUT/concise" --epochs 1 --learning-rate 6e-4 "${step[@]}"
asap train --model "$OUT/concise" --data "$OUT/data/mixed.parquet" --out "$OUT/base" --epochs 1 --learning-rate 6e-4 "${step[@]}"

# 3. Prune with the base model as scoring model, and train it on the result.
asap run "$ARM" --from "$OUT/data/original.parquet" --to "$OUT/pruned" --originals none \
    --set asap.scorer.model="$OUT/base" --set asap.refine.ratio="$SHARE"
asap train --model "$OUT/base" --data "$OUT/pruned" --out "$OUT/trained" --epochs 2 --learning-rate 3e-4 "${step[@]}"

# 4. Evaluate both, and compare.
for model in base trained; do
    asap eval --bench gsm8k --data "$OUT/data/held-out.json" --model "$OUT/$model" --budget 512 --to "$OUT/eval/$model"
done
asap eval --compare "$OUT/eval/base" "$OUT/eval/trained"
