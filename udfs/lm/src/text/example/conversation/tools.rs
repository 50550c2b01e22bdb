//! The schemas of tools, as templates read them.

use minijinja::Value;
use minijinja::value::ValueKind;

use super::Tried;

/// The schemas of tools as JSON text in OpenAI's form, as trainers pass them to chat templates. None if they have another form, or
/// if there is no tool.
pub fn tools_of_openai(text: &str) -> Option<String> {
    let tools = read(text).ok().filter(|tools| !tools.is_none())?;
    serde_json::to_string(&tools).ok()
}

/// The schemas of tools in the order of OpenAI's form. A schema within may be JSON text.
pub(super) fn read(text: &str) -> Tried<Value> {
    let wrong = || "expected tools as a list of objects in JSON".to_string();
    if text.trim().is_empty() {
        return Ok(().into());
    }
    let list: Option<Vec<Value>> = serde_json::from_str(text).map_err(|_| wrong())?;
    let parsed = |value: Value| match value.as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or(value),
        None => value,
    };
    let held = |object: &Value, name: &str| object.get_attr(name).ok().filter(|value| !value.is_undefined());
    let tool = |tool: Value| {
        let tool = parsed(tool);
        let function = held(&tool, "function").map_or(tool, parsed);
        if function.kind() != ValueKind::Map {
            return Err(wrong());
        }
        let keys: Vec<Value> = function.try_iter().map_err(|_| wrong())?.collect();
        let first = ["name", "description", "parameters"];
        let others = keys.iter().filter_map(Value::as_str).filter(|key| !first.contains(key) && *key != "type");
        let field = |name| Some((name, held(&function, name)?));
        let fields = first.into_iter().chain(others).filter_map(field);
        let fields = fields.map(|(name, value)| (name, if name == "parameters" { parsed(value) } else { value }));
        Ok([("type", Value::from("function")), ("function", fields.collect())].into_iter().collect())
    };
    let tools: Vec<Value> = list.unwrap_or_default().into_iter().map(tool).collect::<Tried<_>>()?;
    Ok(if tools.is_empty() { ().into() } else { tools.into() })
}
