//! The elements of a JSON array one by one, or the only value of a file.

use std::fmt;
use std::io::Read;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::Value;

/// Gives `act` each element of an array, or an object that stands alone.
///
/// # Errors
/// When `reader` is not JSON, or neither of the two.
pub fn each(reader: impl Read, act: impl FnMut(Value)) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_reader(reader);
    json.deserialize_any(Each(act))?;
    json.end()
}

struct Each<F>(F);

impl<'de, F: FnMut(Value)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array of objects")
    }

    /// Serde would quote it.
    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        let value =
            Value::deserialize(MapAccessDeserializer::new(map)).map_err(A::Error::custom)?;
        (self.0)(value);
        Ok(())
    }
}
