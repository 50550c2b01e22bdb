//! Compares the products with their definition.

use candle_core::Device;
use proptest::prelude::*;

use super::*;

/// Whole numbers, whose products have exact sums in any order, also in bf16.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed) % 23) as f32 - 11.0).collect()
}

type Product<'a> = Box<dyn Fn(&mut [f32], Update, Cores) + 'a>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn products_agree_with_the_definition(
        rows in prop_oneof![0_usize..50, 60_usize..100],
        outputs in prop_oneof![1_usize..40, 120_usize..200, Just(258)],
        inputs in prop_oneof![1_usize..70, 500_usize..530, Just(1030), Just(1056)],
        gap in 0_usize..3,
        seed in 0_usize..23,
    ) {
        let (x, weight) = (numbers(rows * (inputs + gap), seed), numbers(outputs * inputs, seed + 5));
        let dense = x.chunks(inputs + gap).flat_map(|row| &row[..inputs]).copied().collect::<Vec<f32>>();
        let dot = |x: &[f32], w: &[f32]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>();
        let exact = dense.chunks(inputs).flat_map(|x| weight.chunks(inputs).map(move |w| dot(x, w)));
        let exact: Vec<f32> = exact.collect();

        let (left, right) = (Matrix::new(&x, (rows, inputs), (inputs + gap, 1)), Matrix::dense(&weight, outputs, inputs).t());
        let packed = F32Matrix::pack(&weight, outputs, inputs);
        let stored = Tensor::from_slice(&weight, (outputs, inputs), &Device::Cpu).unwrap();
        let half = stored.to_dtype(DType::BF16).unwrap();
        let matrix = Bf16Matrix::new(half.clone()).unwrap();
        let mut products: Vec<(f32, Product)> = vec![
            (2.0, Box::new(|to, write, cores| multiply(left, right, 2.0, to, write, cores))),
            (1.0, Box::new(|to, write, cores| packed.multiply(&dense, to, write, cores).unwrap())),
            (1.0, Box::new(|to, write, cores| multiply_stored(&stored, &dense, to, write, cores).unwrap())),
            (1.0, Box::new(|to, write, cores| multiply_stored(&half, &dense, to, write, cores).unwrap())),
        ];
        for arithmetic in Arithmetic::here() {
            let (matrix, dense) = (&matrix, &dense);
            products.push((1.0, Box::new(move |to, write, _| matrix.multiply_by(arithmetic, dense, to, write))));
        }
        for (place, (scale, product)) in products.iter().enumerate() {
            for cores in [Cores::One, Cores::All] {
                let mut to = vec![1.0; rows * outputs];
                for (write, before) in [(Update::Add, 1.0), (Update::Replace, 0.0)] {
                    product(&mut to, write, cores);
                    let expected: Vec<f32> = exact.iter().map(|exact| before + scale * exact).collect();
                    prop_assert!(to == expected, "product {} with {:?} and {:?}", place, write, cores);
                }
            }
        }
    }
}
