-- SPIRIT (Cui et al. 2025) as compared in the ASAP paper: computes perplexity once, then drops the step of the
-- original chain with the lowest perplexity, one by one, until the chain has at most asap.refine.max_tokens tokens.
-- As published in the ASAP paper, with one exception: if Algorithm 2 drops every step, steps longer than the budget
-- are dropped before the others. refined_by names the rule.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_perplexity(question, cot_steps(cot)) AS perplexity FROM corpus),
    refined AS (SELECT *, cot_refine_or_fit(cot_steps(cot), perplexity, cot_budget(cot_tokens(cot))) AS refined FROM scored)
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
), 'spirit')
