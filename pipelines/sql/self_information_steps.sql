-- The score of Selective Context (Li et al. 2023) by steps: drops the step of the original chain with the least
-- self-information, one by one, until the chain has at most asap.refine.max_tokens tokens.
-- Differs from its publication: whole steps are scored and dropped in place of words or sentences.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_self_information(cot_steps(cot)) AS self_information FROM corpus),
    refined AS (SELECT *, cot_refine_or_fit(cot_steps(cot), self_information, cot_budget(cot_tokens(cot))) AS refined FROM scored)
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
), 'self_information_steps')
