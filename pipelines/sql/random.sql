-- A baseline that any score must beat: a random subset of the original steps, at most asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    SELECT *,
        cot_random(
            cot_steps(cot),
            least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(array_to_string(cot_steps(cot), E'\n\n')) AS DOUBLE)),
            42
        ) AS kept
    FROM corpus
), 'random')
