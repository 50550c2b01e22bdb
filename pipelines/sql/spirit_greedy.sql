-- SPIRIT (Cui et al. 2025), greedy: drops the step of the original chain whose removal leaves the lowest perplexity
-- of the remaining steps and the answer. Repeats until the chain has at most asap.refine.max_tokens tokens. The
-- model reads a chain of K steps about K²/6 times.
-- Differs from its publication: SPIRIT also merges steps with a language model.
SELECT *
FROM pruned((
    SELECT *, cot_spirit(question, cot_steps(cot), answer, cot_budget(cot_tokens(cot))) AS kept
    FROM corpus
), 'spirit')
