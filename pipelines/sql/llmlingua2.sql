-- LLMLingua-2 (Pan et al. 2024): keeps the words of the original chain that the encoder asap.compressor.model rates
-- highest, about asap.refine.max_tokens tokens. Line ends are dropped, so the result is one step.
-- As published, with one exception: lengths are in tokens of the scoring model.
SELECT *
FROM pruned((
    SELECT *, cot_llmlingua2(cot, least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(cot) AS DOUBLE))) AS compressed
    FROM corpus
))
