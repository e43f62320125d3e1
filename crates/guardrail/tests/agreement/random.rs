//! Random schemas, arguments and garbage, identical on every run.

use serde_json::{Map, Value, json};

/// Dialect of a generated schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Newest,
    Draft7,
}

impl Dialect {
    pub(crate) fn address(self) -> Option<&'static str> {
        match self {
            Dialect::Newest => None,
            Dialect::Draft7 => Some("http://json-schema.org/draft-07/schema#"),
        }
    }
}

/// Targets of references: a plain schema and a recursive one.
pub(crate) fn definitions() -> Value {
    json!({"word": {"type": "string", "minLength": 2},
        "tree": {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"type": "integer"}}}})
}

/// Pseudo-random number generator without a dependency: splitmix64.
pub(crate) struct SchemaRng(u64);

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const WORDS: [&str; 7] = ["", "a", "ab", "b1", "éé", "😀", "aaaa"];
const PATTERNS: [&str; 4] = ["^a", "[0-9]", "b.*1", "^.{2,3}$"];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "null", "array", "object"];
/// Keywords of validators, for schemas that make no sense.
const KEYWORDS: [&str; 24] = [
    "type",
    "enum",
    "const",
    "properties",
    "items",
    "prefixItems",
    "required",
    "minimum",
    "maxLength",
    "pattern",
    "format",
    "allOf",
    "anyOf",
    "not",
    "if",
    "then",
    "$ref",
    "$defs",
    "additionalProperties",
    "multipleOf",
    "default",
    "examples",
    "uniqueItems",
    "$dynamicRef",
];

impl SchemaRng {
    pub(crate) fn new(seed: u64) -> Self {
        SchemaRng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    fn small(&mut self) -> Value {
        match self.below(8) {
            0 => json!(0.5),
            1 => json!(2.0),
            2 => json!(-1),
            _ => json!(self.below(5)),
        }
    }

    fn scalar(&mut self) -> Value {
        match self.below(7) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(false),
            3 | 4 => self.small(),
            _ => json!(self.of(&WORDS)),
        }
    }

    /// Generates the arguments of a call, or a part of them.
    pub(crate) fn instance(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 4 } else { 9 }) {
            0..=3 => self.scalar(),
            4 | 5 => {
                let length = self.below(4);
                (0..length).map(|_| self.instance(depth - 1)).collect()
            }
            _ => {
                let length = self.below(4);
                Value::Object(
                    (0..length).map(|_| (self.of(&KEYS).to_owned(), self.instance(depth - 1))).collect(),
                )
            }
        }
    }

    /// Generates a valid schema.
    pub(crate) fn schema(&mut self, depth: u64, dialect: Dialect) -> Value {
        if self.below(12) == 0 {
            return json!(self.below(2) == 0);
        }
        if self.below(12) == 0 {
            return json!({"$ref": self.of(&["#/$defs/word", "#/$defs/tree", "#/definitions/tree"])});
        }
        let mut schema = Map::new();
        for _ in 0..1 + self.below(3) {
            let (key, value) = self.keyword(depth, dialect);
            schema.insert(key.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn schemas(&mut self, depth: u64, dialect: Dialect) -> Value {
        let length = 1 + self.below(3);
        (0..length).map(|_| self.schema(depth - 1, dialect)).collect()
    }

    fn named_schemas(&mut self, depth: u64, dialect: Dialect, names: &[&'static str]) -> Value {
        let length = 1 + self.below(3);
        let entries = (0..length).map(|_| (self.of(names).to_owned(), self.schema(depth - 1, dialect)));
        Value::Object(entries.collect())
    }

    fn names(&mut self) -> Value {
        let (first, second) = (self.of(&KEYS), self.of(&KEYS));
        if first == second { json!([first]) } else { json!([first, second]) }
    }

    fn keyword(&mut self, depth: u64, dialect: Dialect) -> (&'static str, Value) {
        match self.below(if depth == 0 { 12 } else { 28 }) {
            0 | 1 => ("type", json!(self.of(&TYPES))),
            2 => ("enum", json!([self.scalar(), "ab", [1]])),
            3 => ("const", self.scalar()),
            4 => ("minimum", self.small()),
            5 => ("exclusiveMaximum", self.small()),
            6 => ("multipleOf", json!(self.of(&[1.0, 2.0, 0.5]))),
            7 => ("minLength", json!(self.below(3))),
            8 => ("maxLength", json!(self.below(4))),
            9 => ("pattern", json!(self.of(&PATTERNS))),
            10 => ("required", self.names()),
            11 => ("maxItems", json!(self.below(3))),
            12 | 13 => ("properties", self.named_schemas(depth, dialect, &KEYS)),
            14 => ("additionalProperties", self.schema(depth - 1, dialect)),
            15 => ("patternProperties", self.named_schemas(depth, dialect, &["^a", "b|c"])),
            16 => ("propertyNames", self.schema(depth - 1, dialect)),
            17 => ("items", self.schema(depth - 1, dialect)),
            18 if dialect == Dialect::Draft7 => ("items", self.schemas(depth, dialect)),
            18 => ("prefixItems", self.schemas(depth, dialect)),
            19 => ("contains", self.schema(depth - 1, dialect)),
            20 => ("uniqueItems", json!(true)),
            21 => ("allOf", self.schemas(depth, dialect)),
            22 => ("anyOf", self.schemas(depth, dialect)),
            23 => ("oneOf", self.schemas(depth, dialect)),
            24 => ("not", self.schema(depth - 1, dialect)),
            25 if dialect == Dialect::Draft7 => {
                ("dependencies", json!({"a": self.names(), "b": self.schema(depth - 1, dialect)}))
            }
            25 => ("unevaluatedProperties", self.schema(depth - 1, dialect)),
            26 if dialect == Dialect::Newest => ("dependentRequired", json!({"a": self.names()})),
            26 => ("additionalItems", self.schema(depth - 1, dialect)),
            _ => ("if", self.schema(depth - 1, dialect)),
        }
    }

    /// Generates JSON that may or may not be a schema.
    pub(crate) fn garbage(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 3 } else { 10 }) {
            0 => self.scalar(),
            1 => json!(self.of(&TYPES)),
            2 => json!(self.of(&[
                "#",
                "#/properties/v",
                "#/$defs/a",
                "#a",
                "http://127.0.0.1:1/",
                "path",
                "calls"
            ])),
            3 => {
                let length = self.below(4);
                (0..length).map(|_| self.garbage(depth - 1)).collect()
            }
            _ => {
                let length = self.below(4);
                Value::Object(
                    (0..length).map(|_| (self.of(&KEYWORDS).to_owned(), self.garbage(depth - 1))).collect(),
                )
            }
        }
    }
}
