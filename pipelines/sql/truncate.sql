-- A baseline that any score must beat: the first steps of the chain, at most asap.refine.max_tokens tokens.
WITH split AS (
    SELECT *,
        cot_steps(cot) AS original_steps,
        cot_tokens(array_to_string(cot_steps(cot), E'\n\n')) AS step_tokens
    FROM corpus
),
chosen AS (
    SELECT *, cot_truncate(original_steps, least(1.0, cot_budget() / CAST(step_tokens AS DOUBLE))) AS kept
    FROM split
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
    cot_trace(original_steps, NULL, NULL, NULL, kept, 'truncate') AS steps,
    cot_prompt(question) AS prompt,
    cot_completion(pruned_cot, answer) AS completion,
    array_concat(cot_prompt(question), cot_completion(pruned_cot, answer)) AS messages,
    status,
    error
FROM pruned
