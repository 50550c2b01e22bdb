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
BASE_ROWS=${BASE_ROWS:-16000}  # sums that the base model learns
ROWS=${ROWS:-1200}             # sums that are pruned
HELD_OUT=${HELD_OUT:-400}      # sums for the evaluation
CONFIG=${CONFIG:?config.json of the model, as asap experiment writes it to its folder}
OUT=${OUT:-out/by-hand}

# 1. Sums, in three disjoint parts. The training data has the prompt that asap eval asks with. Two of five chains that the
#    base model learns are concise.
prompt="Solve this problem. Reason step by step, and write the final answer in \\boxed{}."
question="'$prompt' || E'\\n\\n' || question AS question"
until=$((BASE_ROWS + ROWS))
if [ ! -d "$OUT/sums" ]; then
    asap sample --family sums --rows $((until + HELD_OUT)) --seed "$SEED" --to "$OUT/sums"
fi
copy() { asap sql -q -c "COPY (SELECT $1 FROM '$OUT/sums/sums.parquet' WHERE $2 ORDER BY id) TO '$OUT/data/$3'"; }
copy "id, $question, CASE WHEN id % 5 < 2 THEN concise ELSE cot END AS cot, answer" "id < $BASE_ROWS" base.parquet
copy "id, $question, cot, answer" "id >= $BASE_ROWS AND id < $until" original.parquet
copy "question, '#### ' || cot_answer(answer) AS answer" "id >= $until" held-out.json

# 2. The base model, from scratch.
step=(--micro-batch 8 --accumulate 2 --clip 1 --max-length 1024)
asap train --init "$CONFIG" --data "$OUT/data/base.parquet" --out "$OUT/base" --epochs 3 --learning-rate 3e-3 \
    --seed "$SEED" "${step[@]}"

# 3. Prune with the base model as scoring model, and train it on the result.
asap run "$ARM" --from "$OUT/data/original.parquet" --to "$OUT/pruned" --originals none \
    --set asap.scorer.model="$OUT/base" --set asap.refine.ratio="$SHARE"
asap train --model "$OUT/base" --data "$OUT/pruned" --out "$OUT/trained" --epochs 2 --learning-rate 1e-3 --seed "$SEED" "${step[@]}"

# 4. Evaluate both, and compare.
for model in base trained; do
    asap eval --bench gsm8k --data "$OUT/data/held-out.json" --model "$OUT/$model" --budget 512 --to "$OUT/eval/$model"
done
asap eval --compare "$OUT/eval/base" "$OUT/eval/trained"
