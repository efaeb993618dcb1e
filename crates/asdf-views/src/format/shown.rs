//! The YAML that this program writes about a file.

use serde::Serialize;
use serde_yaml::Value;

use seekable::error::{is_unsafe, printable};

/// Serialises a value. Characters that control a terminal are escaped in its strings.
pub fn yaml(value: &impl Serialize) -> Result<String, serde_yaml::Error> {
    let text = serde_yaml::to_string(value)?;
    if !text.contains(|letter| is_unsafe(letter) && letter != '\n') {
        return Ok(text);
    }
    let mut value = serde_yaml::to_value(value)?;
    escape(&mut value);
    serde_yaml::to_string(&value)
}

fn escape(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text).into_owned(),
        Value::Sequence(items) => items.iter_mut().for_each(escape),
        Value::Mapping(members) => {
            for (mut key, mut item) in std::mem::take(members) {
                escape(&mut key);
                escape(&mut item);
                members.insert(key, item);
            }
        }
        Value::Tagged(tagged) => escape(&mut tagged.value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
