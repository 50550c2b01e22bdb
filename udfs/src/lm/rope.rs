//! Rotary position embedding: the frequencies that a config asks for, and their tables.
//!
//! Dimension i of a head is rotated together with dimension i + head_dim / 2.

use std::f64::consts::PI;

use super::config::{Family, Fields};

/// The base of the frequencies and how they are stretched for long windows.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies.
    pub theta: f64,
    /// How frequencies are changed for windows beyond the one of the first training.
    pub scaling: RopeScaling,
}

/// The kinds of scaling, with the field names of `rope_parameters`.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Frequencies as they are.
    Default,
    /// All frequencies divided by the factor.
    Linear {
        /// By how much positions are compressed.
        factor: f64,
    },
    /// Low frequencies divided by the factor, high ones kept, with a ramp over the ratio of window to wavelength.
    Llama3 {
        /// By how much low frequencies are divided.
        factor: f64,
        /// Turns within the original window below which a frequency counts as low.
        low_freq_factor: f64,
        /// Turns within the original window above which a frequency counts as high.
        high_freq_factor: f64,
        /// The original window in tokens.
        original_max_position_embeddings: f64,
    },
    /// Low frequencies divided by the factor, high ones kept, with a ramp over dimensions; attention is sharpened.
    Yarn {
        /// By how much low frequencies are divided.
        factor: f64,
        /// The original window in tokens.
        original_max_position_embeddings: f64,
        /// Turns within the original window at which the ramp begins.
        beta_fast: f64,
        /// Turns within the original window at which the ramp ends.
        beta_slow: f64,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
        /// What queries and keys are multiplied by.
        attention_factor: f64,
    },
}

impl RopeConfig {
    /// Reads `rope_theta` and `rope_scaling` (transformers 4) or `rope_parameters` (transformers 5).
    pub(super) fn parse(config: &Fields, family: Family, window: usize) -> Result<Self, String> {
        let old = config.object("rope_scaling", "rope_scaling.")?;
        let new = config.object("rope_parameters", "rope_parameters.")?;
        let old_scaling = old.map(|fields| RopeScaling::parse(&fields, window)).transpose()?;
        let new_scaling = new.as_ref().map(|fields| RopeScaling::parse(fields, window)).transpose()?;
        if let (Some(old), Some(new)) = (&old_scaling, &new_scaling)
            && old != new
        {
            return Err(format!("rope_scaling and rope_parameters disagree: {old:?} against {new:?}"));
        }
        let old_theta = config.number("rope_theta")?;
        let new_theta = new.map(|fields| fields.number("rope_theta")).transpose()?.flatten();
        let theta = match (old_theta, new_theta) {
            (Some(old), Some(new)) if old != new => {
                return Err(format!("rope_theta {old} and rope_parameters.rope_theta {new} disagree"));
            }
            (Some(theta), _) | (None, Some(theta)) => theta,
            // The first Llama files do not name it.
            (None, None) if family == Family::Llama => 10_000.0,
            (None, None) => return Err("rope_theta is missing".to_string()),
        };
        Ok(Self { theta, scaling: new_scaling.or(old_scaling).unwrap_or(RopeScaling::Default) })
    }
}

impl RopeScaling {
    fn parse(fields: &Fields, window: usize) -> Result<Self, String> {
        let kind = match (fields.text("type")?, fields.text("rope_type")?) {
            (Some(old), Some(new)) if old != new => {
                return Err(format!("type '{old}' and rope_type '{new}' of the rotary embedding disagree"));
            }
            (Some(kind), _) | (None, Some(kind)) => kind,
            (None, None) => return Err("the rotary embedding has no rope_type".to_string()),
        };
        let own: &[&str] = match kind {
            "default" => &[],
            "linear" => &["factor"],
            "llama3" => &["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
            "yarn" => YARN,
            _ => {
                let supported = "expected default, linear, llama3 or yarn";
                return Err(format!("rope_type '{kind}' is not supported: {supported}"));
            }
        };
        fields.refuse_unknown(|key| ["type", "rope_type", "rope_theta"].contains(&key) || own.contains(&key))?;
        match kind {
            "linear" => Ok(Self::Linear { factor: fields.required("factor", Fields::number)? }),
            "llama3" => Ok(Self::Llama3 {
                factor: fields.required("factor", Fields::number)?,
                low_freq_factor: fields.required("low_freq_factor", Fields::number)?,
                high_freq_factor: fields.required("high_freq_factor", Fields::number)?,
                original_max_position_embeddings: fields
                    .required("original_max_position_embeddings", Fields::number)?,
            }),
            "yarn" => Self::yarn(fields, window),
            _ => Ok(Self::Default),
        }
    }

    fn yarn(fields: &Fields, window: usize) -> Result<Self, String> {
        let factor = fields.required("factor", Fields::number)?;
        let sharpness = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        let attention_factor = match fields.number("attention_factor")? {
            Some(given) => given,
            None => match (fields.number("mscale")?, fields.number("mscale_all_dim")?) {
                (Some(scale), Some(all)) => sharpness(scale) / sharpness(all),
                _ => sharpness(1.0),
            },
        };
        let original = fields.number("original_max_position_embeddings")?;
        Ok(Self::Yarn {
            factor,
            original_max_position_embeddings: original.unwrap_or(window as f64),
            beta_fast: fields.number("beta_fast")?.unwrap_or(32.0),
            beta_slow: fields.number("beta_slow")?.unwrap_or(1.0),
            truncate: fields.flag("truncate")?.unwrap_or(true),
            attention_factor,
        })
    }
}

const YARN: &[&str] = &[
    "factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
];

/// The frequencies of a model.
#[derive(Debug, Clone)]
pub struct Rope {
    /// Radians per position, one for each pair of dimensions.
    frequencies: Vec<f64>,
    /// What queries and keys are multiplied by.
    attention_factor: f64,
}

/// Cosines and sines of the positions 0 … n − 1, position by position, head_dim / 2 each.
#[derive(Debug, Clone)]
pub struct RopeTable {
    /// Cosines, times the attention factor.
    pub cos: Vec<f32>,
    /// Sines, times the attention factor.
    pub sin: Vec<f32>,
    /// Pairs of dimensions: head_dim / 2.
    pub pairs: usize,
}

impl Rope {
    /// The frequencies of heads of `head_dim` dimensions.
    pub fn new(config: &RopeConfig, head_dim: usize) -> Self {
        let plain = |pair: usize| config.theta.powf(-2.0 * pair as f64 / head_dim as f64);
        let mut frequencies: Vec<f64> = (0..head_dim / 2).map(plain).collect();
        let mut attention_factor = 1.0;
        match config.scaling {
            RopeScaling::Default => {}
            RopeScaling::Linear { factor } => frequencies.iter_mut().for_each(|frequency| *frequency /= factor),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: window,
            } => {
                for frequency in &mut frequencies {
                    let turns = window * *frequency / (2.0 * PI);
                    let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                    *frequency *= kept + (1.0 - kept) / factor;
                }
            }
            RopeScaling::Yarn {
                factor,
                original_max_position_embeddings: window,
                beta_fast,
                beta_slow,
                truncate,
                attention_factor: given,
            } => {
                attention_factor = given;
                // The dimension at which a pair makes this many turns within the original window.
                let dimension =
                    |turns: f64| head_dim as f64 * (window / (turns * 2.0 * PI)).ln() / (2.0 * config.theta.ln());
                let (mut low, mut high) = (dimension(beta_fast), dimension(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
                if low == high {
                    high += 0.001;
                }
                for (pair, frequency) in frequencies.iter_mut().enumerate() {
                    let stretched = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    *frequency *= (1.0 - stretched) + stretched / factor;
                }
            }
        }
        Self { frequencies, attention_factor }
    }

    /// The table of the positions 0 … `positions` − 1. Angles are taken in f64: in f32 they are off by a thousandth of
    /// a radian at 30,000 tokens.
    pub fn table(&self, positions: usize) -> RopeTable {
        let pairs = self.frequencies.len();
        let mut table =
            RopeTable { cos: Vec::with_capacity(positions * pairs), sin: Vec::with_capacity(positions * pairs), pairs };
        for position in 0..positions {
            for frequency in &self.frequencies {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                table.cos.push((cos * self.attention_factor) as f32);
                table.sin.push((sin * self.attention_factor) as f32);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_cosine_and_sine_of_position_times_frequency() {
        let rope = Rope::new(&RopeConfig { theta: 10_000.0, scaling: RopeScaling::Default }, 4);
        let table = rope.table(30_001);
        assert_eq!(table.pairs, 2);
        let last = 30_000 * 2;
        assert_eq!(table.cos[last], 30_000_f64.cos() as f32);
        assert_eq!(table.sin[last + 1], 300_f64.sin() as f32);
        assert_eq!((table.cos[0], table.sin[0]), (1.0, 0.0));
    }

    #[test]
    fn scalings_keep_the_high_and_divide_the_low_frequencies() {
        let plain = Rope::new(&RopeConfig { theta: 500_000.0, scaling: RopeScaling::Default }, 64).frequencies;
        let llama3 = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8192.0,
        };
        let yarn = RopeScaling::Yarn {
            factor: 8.0,
            original_max_position_embeddings: 8192.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            attention_factor: 1.2,
        };
        for scaling in [llama3, yarn] {
            let scaled = Rope::new(&RopeConfig { theta: 500_000.0, scaling }, 64).frequencies;
            assert_eq!(scaled[0], plain[0]);
            assert!((scaled[31] - plain[31] / 8.0).abs() < 1e-18);
            assert!(scaled.windows(2).all(|pair| pair[0] > pair[1]));
        }
    }
}
