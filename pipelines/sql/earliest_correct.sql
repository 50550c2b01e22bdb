-- The first correct solution (Chen et al. 2024): keeps the original chain up to the first step that states the
-- answer, at most asap.refine.max_tokens tokens. If no step states it, keeps as much of the chain as fits, like
-- truncate.
-- As published, then cut to the budget.
SELECT *
FROM pruned((
    WITH cut AS (SELECT *, cot_select(cot_steps(cot), cot_earliest_correct(cot_steps(cot), answer)) AS first FROM corpus)
    SELECT * EXCEPT (first),
        cot_truncate(
            cot_steps(first),
            least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(array_to_string(cot_steps(first), E'\n\n')) AS DOUBLE))
        ) AS kept
    FROM cut
), 'earliest_correct')
