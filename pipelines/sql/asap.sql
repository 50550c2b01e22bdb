-- The whole method. Stage 1: a direct thought anchors a coarse pruning of the chain (Algorithm 1). Stage 2: of what is
-- left, the step whose first token is the least surprising goes first, until the chain has at most
-- asap.refine.max_tokens tokens (Algorithm 2).
WITH anchored AS (
    SELECT *, cot_steps(cot) AS original_steps, cot_anchor(question, answer) AS direct
    FROM corpus
),
coarsened AS (
    SELECT *, cot_coarse(cot, direct['thought']) AS coarse
    FROM anchored
),
scored AS (
    SELECT *,
        cot_steps(coarse['cot']) AS coarse_steps,
        cot_surprisal(question, cot_steps(coarse['cot'])) AS surprisal
    FROM coarsened
),
refined AS (
    SELECT *, cot_refine(coarse_steps, surprisal) AS kept
    FROM scored
),
pruned AS (
    SELECT *,
        cot_select(coarse_steps, kept) AS pruned_cot,
        cot_too_long(question, coarse_steps) AS too_long
    FROM refined
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
    cot_trace(original_steps, coarse['kept'], coarse['similarity'], surprisal, kept, 'surprisal') AS steps,
    cot_prompt(question) AS prompt,
    cot_completion(pruned_cot, answer) AS completion,
    array_concat(cot_prompt(question), cot_completion(pruned_cot, answer)) AS messages,
    coalesce(
        status, nullif(direct['status'], 'ok'), nullif(coarse['status'], 'ok'),
        CASE WHEN too_long IS NOT NULL THEN 'too_long' WHEN surprisal IS NULL THEN 'no_score' END
    ) AS status,
    coalesce(
        error, direct['error'], coarse['error'], too_long,
        CASE WHEN surprisal IS NULL THEN 'the scoring model computed numbers that are none' END
    ) AS error
FROM pruned
