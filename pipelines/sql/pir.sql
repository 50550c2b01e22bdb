-- PIR (Xiao et al. 2025): of the functional steps (verification, other methods, error correction),
-- drops the quarter that the answer needs least. All other steps stay, so the budget has no effect. The model reads
-- a chain of K steps about K/2 times.
-- Differs from its publication: only rules find the functional steps. The paper also asks a language model.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_attribution(question, cot_steps(cot), answer) AS attribution FROM corpus)
    SELECT *, cot_drop_functional(cot_functions(cot_steps(cot)), attribution, 0.25) AS kept
    FROM scored
), 'pir')
