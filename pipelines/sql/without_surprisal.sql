-- Stage 1, brought to the budget without a score: the direct thought anchors a coarse pruning of the chain
-- (Algorithm 1), and a random subset of its steps, at most asap.refine.max_tokens tokens, is kept.
WITH anchored AS (
    SELECT *, cot_steps(cot) AS original_steps, cot_anchor(question, answer) AS direct
    FROM corpus
),
coarsened AS (
    SELECT *, cot_coarse(cot, direct['thought']) AS coarse
    FROM anchored
),
chosen AS (
    SELECT *,
        cot_steps(coarse['cot']) AS coarse_steps,
        cot_random(
            cot_steps(coarse['cot']), least(1.0, cot_budget() / CAST(cot_tokens(coarse['cot']) AS DOUBLE)), 42
        ) AS kept
    FROM coarsened
),
pruned AS (
    SELECT *, cot_select(coarse_steps, kept) AS pruned_cot
    FROM chosen
)
SELECT
    source,
    id,
    question,
    pruned_cot AS cot,
    cot AS original_cot,
    answer,
    direct['thought'] AS anchor,
    direct['tokens_in'] + coarse['tokens_in'] AS anchor_tokens_in,
    direct['tokens_out'] + coarse['tokens_out'] AS anchor_tokens_out,
    direct['cached'] AND coarse['cached'] AS cached,
    cot_tokens(cot) AS original_tokens,
    cot_tokens(coarse['cot']) AS coarse_tokens,
    cot_tokens(pruned_cot) AS pruned_tokens,
    cot_trace(original_steps, coarse['kept'], coarse['similarity'], NULL, kept, 'random') AS steps,
    cot_prompt(question) AS prompt,
    cot_completion(pruned_cot, answer) AS completion,
    array_concat(cot_prompt(question), cot_completion(pruned_cot, answer)) AS messages,
    coalesce(status, nullif(direct['status'], 'ok'), nullif(coarse['status'], 'ok')) AS status,
    coalesce(error, direct['error'], coarse['error']) AS error
FROM pruned
