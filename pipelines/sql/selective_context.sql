-- Selective Context (Li et al. 2023): drops the words of the original chain with the least self-information. The
-- share of words that stay is the budget's share of the tokens, so the result has about asap.refine.max_tokens
-- tokens.
-- Differs from its publication: units are words by the rules of Unicode. Papers that compare with it do not say
-- which units they drop. The default units of its program are the noun chunks of spaCy.
SELECT *
FROM pruned((
    SELECT *, cot_selective_context(cot, least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(cot) AS DOUBLE))) AS compressed
    FROM corpus
))
