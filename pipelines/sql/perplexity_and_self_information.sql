-- Drops the least informative step, one by one, until the chain has at most asap.refine.max_tokens tokens. Steps are
-- ordered by the sum of two ranks: perplexity within the chain, and self-information of the step alone. Steps longer
-- than the limit are dropped before, the last step is dropped last, and a step that ends in a colon is dropped with the
-- step after it.
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
