-- Stage 1, then random steps down to the budget: the direct thought anchors a coarse pruning of the chain (Algorithm
-- 1). Then random steps are dropped until the chain has at most asap.refine.max_tokens tokens. Steps longer than that
-- are dropped before, as in asap.
SELECT *
FROM pruned((
    WITH anchored AS (SELECT *, cot_anchor(question, answer) AS direct FROM corpus),
    coarsened AS (SELECT *, cot_coarse(cot, direct['thought']) AS coarse FROM anchored),
    scored AS (SELECT *, cot_random_scores(cot_steps(coarse['cot']), 42) AS chance FROM coarsened)
    SELECT * EXCEPT (chance), cot_fit(cot_steps(coarse['cot']), chance, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
), 'random')
