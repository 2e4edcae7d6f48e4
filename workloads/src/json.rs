//! Values as JSON: how they are kept in stores and spoken to client programs.

use deposed_history::Value;
use serde_json::{Map, Number};

/// A value as JSON. Keywords become text, and so do keys that are not text.
pub(crate) fn from_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(n) => (*n).into(),
        Value::Float(x) => Number::from_f64(*x).map_or(serde_json::Value::Null, Into::into),
        Value::Str(text) | Value::Keyword(text) => (&**text).into(),
        Value::List(items) => items.iter().map(from_value).collect(),
        Value::Map(pairs) => {
            let key = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            let pairs = pairs.iter().map(|(k, v)| (key(k), from_value(v)));
            serde_json::Value::Object(pairs.collect::<Map<_, _>>())
        }
    }
}

/// JSON as a value. Whole numbers that fit are [`Value::Int`], all others [`Value::Float`].
pub(crate) fn to_value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(b) => Value::Bool(*b),
        serde_json::Value::Number(n) => {
            n.as_i64().map_or_else(|| Value::Float(n.as_f64().unwrap_or(f64::NAN)), Value::Int)
        }
        serde_json::Value::String(text) => Value::str(text.as_str()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(to_value).collect()),
        serde_json::Value::Object(map) => Value::Map(
            map.iter().map(|(key, value)| (Value::str(key.as_str()), to_value(value))).collect(),
        ),
    }
}

/// A value as a store keeps it.
pub(crate) fn to_bytes(value: &Value) -> Vec<u8> {
    from_value(value).to_string().into_bytes()
}

/// A key as a store keeps it: text as it is, all else as JSON.
pub(crate) fn to_key(key: &Value) -> Vec<u8> {
    key.as_str().map_or_else(|| to_bytes(key), |text| text.as_bytes().to_vec())
}

/// What a store kept. Bytes that nobody can have written come back as text, so that a checker sees
/// them.
pub(crate) fn from_bytes(bytes: &[u8]) -> Value {
    let json = serde_json::from_slice(bytes);
    json.map_or_else(|_| Value::from(String::from_utf8_lossy(bytes).into_owned()), |j| to_value(&j))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written to a store is read back as the same value; garbage is still a value.
    #[test]
    fn values_survive_a_store() {
        let list = Value::List(vec![Value::Nil, Value::Bool(true), Value::Float(0.5)]);
        let map = Value::Map(vec![(Value::str("a"), Value::Int(-1))]);
        for value in [Value::Int(7), Value::str("7"), list, map] {
            assert_eq!(from_bytes(&to_bytes(&value)), value);
        }
        assert_eq!(from_bytes(b"\xff{"), Value::str("\u{fffd}{"));
        assert_eq!(to_key(&Value::str("k1")), b"k1");
        assert_eq!(to_key(&Value::Int(1)), b"1");
    }
}
