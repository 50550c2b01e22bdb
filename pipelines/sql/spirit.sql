-- SPIRIT (Cui et al. 2025) as compared in the ASAP paper: computes perplexity once, then drops the step of the original
-- chain with the lowest perplexity, one by one, until the chain has at most asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_perplexity(question, cot_steps(cot)) AS perplexity FROM corpus)
    SELECT *, cot_refine(cot_steps(cot), perplexity, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
), 'spirit')
