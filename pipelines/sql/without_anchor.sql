-- Stage 2 alone: of the original chain, the step whose first token is the least surprising goes first, until the chain
-- has at most asap.refine.max_tokens tokens (Algorithm 2).
WITH split AS (
    SELECT *, cot_steps(cot) AS original_steps
    FROM corpus
),
scored AS (
    SELECT *,
        cot_surprisal(question, original_steps) AS surprisal,
        cot_too_long(question, original_steps) AS too_long
    FROM split
),
chosen AS (
    SELECT *, cot_refine(original_steps, surprisal) AS kept
    FROM scored
),
pruned AS (
    SELECT *, cot_select(original_steps, kept) AS pruned_cot
    FROM chosen
)
SELECT
    source,
    id,
    question,
    pruned_cot AS cot,
    cot AS original_cot,
    answer,
    CAST(NULL AS VARCHAR) AS anchor,
    cot_tokens(cot) AS original_tokens,
    cot_tokens(cot) AS coarse_tokens,
    cot_tokens(pruned_cot) AS pruned_tokens,
    cot_trace(original_steps, NULL, NULL, surprisal, kept, 'surprisal') AS steps,
    cot_prompt(question) AS prompt,
    cot_completion(pruned_cot, answer) AS completion,
    array_concat(cot_prompt(question), cot_completion(pruned_cot, answer)) AS messages,
    coalesce(
        status, CASE WHEN too_long IS NOT NULL THEN 'too_long' WHEN surprisal IS NULL THEN 'no_score' END
    ) AS status,
    coalesce(
        error, too_long, CASE WHEN surprisal IS NULL THEN 'the scoring model computed numbers that are none' END
    ) AS error
FROM pruned
