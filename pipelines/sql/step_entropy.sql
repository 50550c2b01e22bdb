-- Step entropy (Li et al. 2025, first version of the paper): drops the step of the original chain with the lowest
-- total entropy of its tokens, one by one, until the chain has at most asap.refine.max_tokens tokens.
-- Differs from its publication: the published program writes [SKIP] in place of dropped steps.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_step_entropy(question, cot_steps(cot)) AS step_entropy FROM corpus),
    refined AS (SELECT *, cot_refine_or_fit(cot_steps(cot), step_entropy, cot_budget(cot_tokens(cot))) AS refined FROM scored)
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
), 'step_entropy')
