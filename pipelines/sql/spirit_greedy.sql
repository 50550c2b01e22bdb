-- SPIRIT (Cui et al. 2025), greedy: of the original chain, the step goes without which what is left and the answer have the
-- lowest perplexity, and then the next, until the chain has at most asap.refine.max_tokens tokens. The model reads a chain
-- of K steps about K²/6 times.
SELECT *
FROM pruned((
    SELECT *, cot_spirit(question, cot_steps(cot), answer, cot_budget(cot_tokens(cot))) AS kept
    FROM corpus
), 'spirit')
