-- Stage 1, brought to the budget without a score: the direct thought anchors a coarse pruning of the chain
-- (Algorithm 1), and a random subset of its steps, at most asap.refine.max_tokens tokens, is kept.
SELECT *
FROM pruned((
    WITH anchored AS (SELECT *, cot_anchor(question, answer) AS direct FROM corpus),
    coarsened AS (SELECT *, cot_coarse(cot, direct['thought']) AS coarse FROM anchored)
    SELECT *,
        cot_random(
            cot_steps(coarse['cot']), least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(coarse['cot']) AS DOUBLE)), 42
        ) AS kept
    FROM coarsened
), 'random')
