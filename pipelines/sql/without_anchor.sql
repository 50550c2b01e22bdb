-- Stage 2 alone: drops the step of the original chain with the least surprising first token, one by one, until the
-- chain has at most asap.refine.max_tokens tokens (Algorithm 2).
-- As published, with one exception: if Algorithm 2 drops every step, steps longer than the budget are dropped
-- before the others. refined_by names the rule.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_surprisal(question, cot_steps(cot)) AS surprisal FROM corpus),
    refined AS (SELECT *, cot_refine_or_fit(cot_steps(cot), surprisal, cot_budget(cot_tokens(cot))) AS refined FROM scored)
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
))
