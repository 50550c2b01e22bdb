-- A control that any score must beat: drops the step nearest the middle of the original chain, one by one, down to
-- exactly asap.refine.max_tokens tokens. The last dropped step is cut at a token instead; cut is its number.
SELECT *
FROM pruned((
    WITH fitted AS (
        SELECT *, cot_refine_exactly(
            cot_steps(cot), cot_control_scores(cot_steps(cot), 'middle', 42), cot_budget(cot_tokens(cot))
        ) AS fitted
        FROM corpus
    )
    SELECT * EXCEPT (fitted), fitted['kept'] AS kept, cot_select(fitted['steps'], fitted['kept']) AS compressed,
        fitted['cut'] AS cut
    FROM fitted
), 'middle')
