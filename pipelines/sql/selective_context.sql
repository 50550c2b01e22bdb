-- Selective Context (Li et al. 2023): drops the words of the original chain with the least self-information. The share
-- of words that stay is the budget's share of the tokens, so the result has about asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    SELECT *, cot_selective_context(cot, least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(cot) AS DOUBLE))) AS compressed
    FROM corpus
))
