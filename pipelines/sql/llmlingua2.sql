-- LLMLingua-2 (Pan et al. 2024): of the original chain, the words that the encoder asap.compressor.model finds the most worth
-- keeping, about asap.refine.max_tokens tokens of them. They are one step, as line ends go.
SELECT source, id, question, compressed AS cot, cot AS original_cot, answer,
    cot_tokens(cot) AS original_tokens, cot_tokens(compressed) AS pruned_tokens,
    cot_prompt(question) AS prompt, cot_completion(compressed, answer) AS completion,
    array_concat(cot_prompt(question), cot_completion(compressed, answer)) AS messages,
    coalesce(status, CASE WHEN compressed IS NULL THEN 'not_pruned' WHEN compressed = '' THEN 'emptied' END) AS status,
    coalesce(error, CASE WHEN coalesce(compressed, '') = '' THEN 'no word of the chain is left' END) AS error
FROM (
    SELECT *, cot_llmlingua2(cot, least(1.0, cot_budget(cot_tokens(cot)) / CAST(cot_tokens(cot) AS DOUBLE))) AS compressed
    FROM corpus
)
