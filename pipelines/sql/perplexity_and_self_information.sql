-- The step that tells the model the least goes first, by its rank in perplexity within the chain and its rank in
-- self-information alone, until the chain has at most asap.refine.max_tokens tokens. Steps too long for that go before it, the
-- last step goes last, and a step that ends in a colon goes with the step after it.
SELECT *
FROM pruned((
    WITH scored AS (
        SELECT *, cot_perplexity(question, cot_steps(cot)) AS perplexity,
            cot_self_information(cot_steps(cot)) AS self_information
        FROM corpus
    )
    SELECT *,
        cot_fit_with_headings(
            cot_steps(cot), array_add(cot_rank(perplexity), cot_rank(self_information)), cot_budget(cot_tokens(cot))
        ) AS kept
    FROM scored
), 'perplexity_and_self_information')
