-- Selective Context (Li et al. 2023) by steps: drops the step of the original chain with the least self-information,
-- one by one, until the chain has at most asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_self_information(cot_steps(cot)) AS selective_context FROM corpus)
    SELECT *, cot_refine(cot_steps(cot), selective_context, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
), 'selective_context')
