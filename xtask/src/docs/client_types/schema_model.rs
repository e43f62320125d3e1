//! Types as both languages can write them, read from JSON Schema. A nested object gets the name of its place.

use serde_json::Value;

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Any,
    Null,
    String,
    Integer,
    Number,
    Boolean,
    /// Words of an enumeration.
    Words(Vec<String>),
    List(Box<Type>),
    /// Object with arbitrary keys.
    Map(Box<Type>),
    Named(String),
    Union(Vec<Type>),
}

/// Field of an object.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) is_required: bool,
    pub(super) kind: Type,
}

/// Definition with a name.
pub(super) enum Definition {
    Object { name: String, text: String, fields: Vec<Field> },
    Alias { name: String, text: String, kind: Type },
}

/// All definitions, in the order of the schema; a nested one precedes the object that uses it.
pub(super) struct Model {
    pub(super) definitions: Vec<Definition>,
}

impl Model {
    /// Fields of an object.
    pub(super) fn fields(&self, wanted: &str) -> &[Field] {
        let found = self.definitions.iter().find_map(|definition| match definition {
            Definition::Object { name, fields, .. } if name == wanted => Some(fields.as_slice()),
            _ => None,
        });
        found.unwrap_or_default()
    }
}

/// Method with the names of its types.
pub(super) struct Method {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) params: String,
    pub(super) result: String,
}

/// Built-in tool with the names of its types.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) arguments: String,
    pub(super) output: String,
}

/// Collects definitions while it reads schemas.
#[derive(Default)]
pub(super) struct Reader {
    definitions: Vec<Definition>,
}

impl Reader {
    pub(super) fn finish(self) -> Model {
        Model { definitions: self.definitions }
    }

    /// Adds a definition with this name.
    pub(super) fn define(&mut self, name: &str, schema: &Value) {
        let text = description(schema);
        if schema["properties"].is_object() {
            let fields = self.read_fields(name, schema);
            self.definitions.push(Definition::Object { name: name.to_owned(), text, fields });
        } else {
            let kind = self.read(name, schema);
            self.definitions.push(Definition::Alias { name: name.to_owned(), text, kind });
        }
    }

    fn read_fields(&mut self, parent: &str, schema: &Value) -> Vec<Field> {
        let required: Vec<&str> = items(&schema["required"]).filter_map(Value::as_str).collect();
        let mut fields = Vec::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let kind = self.read(&format!("{parent}{}", camel(name)), property);
            let is_required = required.contains(&name.as_str());
            fields.push(Field { name: name.clone(), text: description(property), is_required, kind });
        }
        fields
    }

    /// Reads the type of a value; `place` names an object that has no name of its own.
    fn read(&mut self, type_name: &str, schema: &Value) -> Type {
        if let Some(name) = schema["$ref"].as_str() {
            return Type::Named(name.rsplit('/').next().unwrap_or(name).to_owned());
        }
        if let Some(word) = schema["const"].as_str() {
            return Type::Words(vec![word.to_owned()]);
        }
        if schema["enum"].is_array() {
            return read_words(&schema["enum"]);
        }
        for key in ["anyOf", "oneOf"] {
            if schema[key].is_array() {
                let variants = items(&schema[key]).enumerate();
                return union(variants.map(|(n, one)| self.read(&variant_name(type_name, n), one)).collect());
            }
        }
        match &schema["type"] {
            Value::String(word) => self.read_typed(type_name, word, schema),
            Value::Array(types) => {
                let types = types.iter().filter_map(Value::as_str);
                union(types.map(|word| self.read_typed(type_name, word, schema)).collect())
            }
            _ => Type::Any,
        }
    }

    fn read_typed(&mut self, type_name: &str, word: &str, schema: &Value) -> Type {
        match word {
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "null" => Type::Null,
            "array" => Type::List(Box::new(self.read(&format!("{type_name}Item"), &schema["items"]))),
            "object" if schema["properties"].is_object() => {
                self.define(type_name, schema);
                Type::Named(type_name.to_owned())
            }
            "object" => Type::Map(Box::new(match &schema["additionalProperties"] {
                values @ Value::Object(_) => self.read(&format!("{type_name}Value"), values),
                _ => Type::Any,
            })),
            _ => Type::Any,
        }
    }
}

/// Name of a variant: the first has the name of the type, because it is usually the only object.
fn variant_name(type_name: &str, position: usize) -> String {
    if position == 0 { type_name.to_owned() } else { format!("{type_name}Variant{}", position + 1) }
}

fn read_words(values: &Value) -> Type {
    let literals: Vec<String> = items(values).filter_map(Value::as_str).map(str::to_owned).collect();
    let null = items(values).any(Value::is_null).then_some(Type::Null);
    union([Type::Words(literals)].into_iter().chain(null).collect())
}

fn union(variants: Vec<Type>) -> Type {
    let mut distinct: Vec<Type> = Vec::new();
    for variant in variants {
        let parts = if let Type::Union(parts) = variant { parts } else { vec![variant] };
        for part in parts {
            if part == Type::Any {
                return Type::Any;
            }
            let is_known = distinct.contains(&part);
            match (distinct.last_mut(), part) {
                // schemars writes an enumeration with documented variants as one constant each.
                (Some(Type::Words(literals)), Type::Words(more)) => literals.extend(more),
                (_, part) if !is_known => distinct.push(part),
                _ => {}
            }
        }
    }
    match distinct.pop() {
        Some(only) if distinct.is_empty() => only,
        Some(last) => {
            distinct.push(last);
            Type::Union(distinct)
        }
        None => Type::Any,
    }
}

/// Words joined in camel case: `session.open` is `SessionOpen`.
pub(super) fn camel(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

fn description(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
