-- Stage 1, then random steps down to the budget: the direct thought anchors a coarse pruning of the chain (Algorithm
-- 1). Then random steps are dropped until the chain has at most asap.refine.max_tokens tokens, by the rule of asap.
SELECT *
FROM pruned((
    WITH anchored AS (SELECT *, cot_anchor(question, answer) AS direct FROM corpus),
    coarsened AS (SELECT *, cot_coarse(cot, direct['thought']) AS coarse FROM anchored),
    scored AS (SELECT *, cot_random_scores(cot_steps(coarse['cot']), 42) AS chance FROM coarsened),
    refined AS (
        SELECT *, cot_refine_or_fit(cot_steps(coarse['cot']), chance, cot_budget(cot_tokens(cot))) AS refined FROM scored
    )
    SELECT * EXCEPT (chance, refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
), 'random')
