-- The first correct solution (Chen et al. 2024): the original chain up to the first step that states the answer, and no more
-- than asap.refine.max_tokens tokens of it; where no step states it, all of the chain that fits, as truncate keeps.
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
