-- Scores all steps as PIR (Xiao et al. 2025) does. Drops the steps of the original chain that the answer needs least, one
-- by one, until the chain has at most asap.refine.max_tokens tokens. The model reads a chain of K steps about K/2 times.
-- Differs from its publication: PIR drops only functional steps. See pir.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_attribution(question, cot_steps(cot), answer) AS attribution FROM corpus),
    refined AS (SELECT *, cot_refine_or_fit(cot_steps(cot), attribution, cot_budget(cot_tokens(cot))) AS refined FROM scored)
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
), 'attribution')
