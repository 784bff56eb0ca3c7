//! How far a profile's answers over moved KV may differ from exact ones before it falls back to exact KV.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Limits of means over a profile's latest samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReuseLimits {
    /// The most nats that a token may diverge by (KL), 0 or more.
    #[serde(deserialize_with = "divergence")]
    pub divergence: f64,
    /// The least part of the likeliest tokens that must agree, 0 to 1.
    #[serde(deserialize_with = "agreement")]
    pub agreement: f64,
}

impl Default for ReuseLimits {
    /// Between models for which a head by length is enough and those for which it is not (docs/MEASUREMENTS.md):
    /// 0.019 and 0.978 or better on all texts of the bundled model, 0.058 and 0.944 on SmolLM2-135M. With the
    /// default repair, which computes more, SmolLM2-135M has 0.024 and 0.950: its agreement is at the limit.
    fn default() -> Self {
        Self { divergence: 0.05, agreement: 0.95 }
    }
}

impl ReuseLimits {
    pub fn are_kept(&self, divergence: f64, agreement: f64) -> bool {
        divergence <= self.divergence && agreement >= self.agreement
    }
}

fn divergence<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    let nats = f64::deserialize(value)?;
    if nats.is_finite() && nats >= 0.0 {
        return Ok(nats);
    }
    Err(D::Error::custom(format!("`divergence` must be 0 or more nats a token, not {nats}")))
}

fn agreement<'de, D: Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    let part = f64::deserialize(value)?;
    if (0.0..=1.0).contains(&part) {
        return Ok(part);
    }
    Err(D::Error::custom(format!("`agreement` must be from 0 to 1, not {part}")))
}
