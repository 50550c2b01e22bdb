-- A control that any score must beat: a random contiguous block of the original chain, exactly asap.refine.max_tokens
-- tokens. The step at the edge of the block is cut at a token; cut is its number.
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
