//! The RoPE settings of a config.

use super::Family;
use super::fields::Fields;

/// Base of the frequencies, and their scaling for long windows.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    pub theta: f64,
    pub scaling: RopeScaling,
}

/// Kinds of scaling, with the field names of `rope_parameters`.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    Default,
    Linear {
        factor: f64,
    },
    /// Divides low frequencies by the factor, with a ramp over the ratio of window to wavelength.
    Llama3 {
        factor: f64,
        /// Frequencies with fewer turns within the original window count as low.
        low_freq_factor: f64,
        /// Frequencies with more turns within the original window count as high.
        high_freq_factor: f64,
        original_max_position_embeddings: f64,
    },
    /// Divides low frequencies by the factor, with a ramp over dimensions, and sharpens attention.
    Yarn {
        factor: f64,
        original_max_position_embeddings: f64,
        beta_fast: f64,
        beta_slow: f64,
        truncate: bool,
        attention_factor: f64,
    },
}

impl RopeConfig {
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
            // The first Llama files omit it.
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
            (None, None) => "default",
        };
        let own = match kind {
            "default" => "",
            "linear" => "factor",
            "llama3" => "factor low_freq_factor high_freq_factor original_max_position_embeddings",
            "yarn" => {
                "factor original_max_position_embeddings beta_fast beta_slow truncate attention_factor attn_factor \
                 mscale mscale_all_dim"
            }
            _ => {
                let supported = "expected default, linear, llama3 or yarn";
                return Err(format!("rope_type '{kind}' is not supported: {supported}"));
            }
        };
        fields.refuse_unknown(&format!("type rope_type rope_theta {own}"))?;
        let number = |key| fields.required(key, Fields::number);
        match kind {
            "linear" => Ok(Self::Linear { factor: number("factor")? }),
            "llama3" => Ok(Self::Llama3 {
                factor: number("factor")?,
                low_freq_factor: number("low_freq_factor")?,
                high_freq_factor: number("high_freq_factor")?,
                original_max_position_embeddings: number("original_max_position_embeddings")?,
            }),
            "yarn" => Self::yarn(fields, window),
            _ => Ok(Self::Default),
        }
    }

    fn yarn(fields: &Fields, window: usize) -> Result<Self, String> {
        let factor = fields.required("factor", Fields::number)?;
        let sharpness = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        // A factor of vLLM and SGLang that corrects the formula; transformers ignores it.
        let correction = fields.number("attn_factor")?.unwrap_or(1.0);
        let attention_factor = match fields.number("attention_factor")? {
            Some(given) => given,
            None => match (fields.number("mscale")?, fields.number("mscale_all_dim")?) {
                (Some(scale), Some(all)) => correction * sharpness(scale) / sharpness(all),
                _ => correction * sharpness(1.0),
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
