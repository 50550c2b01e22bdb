-- Selective Context (Li et al. 2023) by steps: of the original chain, the step that tells the model the least by itself goes
-- first, until the chain has at most asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_self_information(cot_steps(cot)) AS selective_context FROM corpus)
    SELECT *, cot_refine(cot_steps(cot), selective_context, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
), 'selective_context')
