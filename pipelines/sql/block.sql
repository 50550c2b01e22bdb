-- A control that any score must beat: a random contiguous block of the original chain, with exactly as many tokens as
-- the budget allows. To reach this size, asap cuts a step at an edge of the block. The column cut names that step.
SELECT *
FROM pruned((
    WITH fitted AS (
        SELECT *, cot_refine_exactly(
            cot_steps(cot), cot_control_scores(cot_steps(cot), 'block', 42), cot_budget(cot_tokens(cot))
        ) AS fitted
        FROM corpus
    )
    SELECT * EXCEPT (fitted), fitted['kept'] AS kept, cot_select(fitted['steps'], fitted['kept']) AS compressed,
        fitted['cut'] AS cut
    FROM fitted
), 'block')
