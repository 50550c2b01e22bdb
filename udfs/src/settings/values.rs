//! The types of settings' values.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub(super) trait SettingValue: Sized {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn show(&self) -> Option<String>;
}

/// A type of numbers: what it holds, and which numbers it takes.
macro_rules! number {
    ($(#[doc = $doc:literal])* $type:ident($number:ty), $expected:literal, $takes:expr) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $type(pub $number);

        impl SettingValue for $type {
            const EXPECTED: &'static str = $expected;
            fn parse(text: &str) -> Option<Self> {
                let takes: fn(&$number) -> bool = $takes;
                <$number>::from_str(text.trim()).ok().filter(takes).map($type)
            }
            fn show(&self) -> Option<String> {
                Some(self.0.to_string())
            }
        }
    };
}

number!(Ratio(f64), "a number from 0 to 1", |x| (0.0..=1.0).contains(x));
number!(Share(f64), "a number above 0 and at most 1", |x| *x > 0.0 && *x <= 1.0);
number!(Positive(u32), "a whole number of at least 1", |x| *x >= 1);
number!(Money(f64), "a number of at least 0", |x| x.is_finite() && *x >= 0.0);
number!(
    /// A time in seconds, from a millisecond to a day.
    Seconds(f64),
    "a number of seconds from 0.001 to 86400",
    |x| (0.001..=86_400.0).contains(x)
);
number!(
    /// A time in seconds, up to a day. No time is 0.
    Wait(f64),
    "a number of seconds from 0 to 86400",
    |x| (0.0..=86_400.0).contains(x)
);

impl Seconds {
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0.clamp(0.001, 86_400.0))
    }
}

impl Wait {
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0.clamp(0.0, 86_400.0))
    }
}

impl SettingValue for i64 {
    const EXPECTED: &'static str = "a whole number of at least 0";
    fn parse(text: &str) -> Option<Self> {
        i64::from_str(text.trim()).ok().filter(|x| *x >= 0)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl SettingValue for String {
    const EXPECTED: &'static str = "text that is not empty";
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_string())
    }
    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

// An empty text unsets a setting.
impl<T: SettingValue> SettingValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { T::parse(text).map(Some) }
    }
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }
}

impl SettingValue for bool {
    const EXPECTED: &'static str = "'true' or 'false'";
    fn parse(text: &str) -> Option<Self> {
        bool::from_str(&text.trim().to_ascii_lowercase()).ok()
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A device of the scoring model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Cpu,
    /// An NVIDIA GPU by its number; the first visible one without a number.
    Cuda(Option<usize>),
}

/// The devices of the scoring model: the CPU, or different GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices(pub Vec<Device>);

impl Devices {
    pub fn is_cpu(&self) -> bool {
        self.cards().is_empty()
    }

    /// The numbers of the GPUs.
    pub fn cards(&self) -> Vec<usize> {
        let card = |device: &Device| if let Device::Cuda(number) = device { Some(number.unwrap_or(0)) } else { None };
        self.0.iter().filter_map(card).collect()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(f, "cuda:{number}"),
        }
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Device::to_string).collect();
        f.write_str(&names.join(","))
    }
}

impl SettingValue for Devices {
    const EXPECTED: &'static str = "'cpu', 'cuda', or different GPUs such as 'cuda:0,cuda:1'";
    fn parse(text: &str) -> Option<Self> {
        let device = |name: &str| match name.trim() {
            "cpu" => Some(Device::Cpu),
            "cuda" => Some(Device::Cuda(None)),
            name => name.strip_prefix("cuda:")?.parse().ok().map(|number| Device::Cuda(Some(number))),
        };
        let devices = Self(text.split(',').map(device).collect::<Option<_>>()?);
        let cards = devices.cards();
        let are_different = cards.iter().enumerate().all(|(place, card)| !cards[..place].contains(card));
        let is_one_kind = cards.len() == devices.0.len() || devices.0.len() == 1;
        (are_different && is_one_kind).then_some(devices)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl SettingValue for Texts {
    const EXPECTED: &'static str = "a JSON list of texts, such as [\"Step\", \":\"]";
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Vec<String>>(text)
            .ok()
            .filter(|texts| texts.iter().all(|text| !text.is_empty()))
            .map(Texts)
    }
    fn show(&self) -> Option<String> {
        serde_json::to_string(&self.0).ok()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl SettingValue for Bytes {
    const EXPECTED: &'static str = "a whole number of K, M or G, such as 768M";
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = text.trim().split_at_checked(text.trim().len().checked_sub(1)?)?;
        let unit = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return None,
        };
        usize::from_str(number).ok()?.checked_mul(unit).map(Bytes)
    }
    fn show(&self) -> Option<String> {
        let (number, unit) = match self.0 {
            bytes if bytes.is_multiple_of(1 << 30) => (bytes >> 30, 'G'),
            bytes if bytes.is_multiple_of(1 << 20) => (bytes >> 20, 'M'),
            bytes => (bytes >> 10, 'K'),
        };
        Some(format!("{number}{unit}"))
    }
}
