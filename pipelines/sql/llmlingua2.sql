-- LLMLingua-2 (Pan et al. 2024): of the original chain, the words that the encoder asap.compressor.model finds the most worth
-- keeping, about asap.refine.max_tokens tokens of them. They are one step, as line ends go.
SELECT *
FROM pruned((
    SELECT *, cot_llmlingua2(cot, least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(cot) AS DOUBLE))) AS compressed
    FROM corpus
))
