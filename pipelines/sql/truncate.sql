-- A baseline that any score must beat: the first steps of the chain, at most asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    SELECT *,
        cot_truncate(
            cot_steps(cot),
            least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(array_to_string(cot_steps(cot), E'\n\n')) AS DOUBLE))
        ) AS kept
    FROM corpus
), 'truncate')
