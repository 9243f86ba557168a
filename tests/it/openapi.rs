//! The document of the API, as tests read it: which operations there are, how each is called by its examples, and whether an
//! answer is one of those it promises.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::json;

/// The document.
#[derive(Debug)]
pub struct Document(pub Value);

/// One call that it describes.
#[derive(Debug)]
pub struct Operation<'a> {
    document: &'a Document,
    /// `GET` …
    pub method: String,
    /// As a route names it: `/v1/alarms/{id}`.
    pub path: &'a str,
    /// What is said of it.
    pub told: &'a Value,
    parameters: Vec<&'a Value>,
}

/// A request by examples.
#[derive(Debug)]
pub struct Call {
    pub method: String,
    /// With its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Values that take the place of examples, by the name of their parameter.
pub type Values = BTreeMap<&'static str, String>;

impl Document {
    pub fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).expect("the document is JSON"))
    }

    /// All operations, by path.
    pub fn operations(&self) -> Vec<Operation<'_>> {
        let mut operations = Vec::new();
        for (path, item) in self.0["paths"].as_object().expect("there are paths") {
            for (method, told) in item.as_object().expect("a path has methods") {
                if method == "parameters" {
                    continue;
                }
                let lists = [&item["parameters"], &told["parameters"]];
                let parameters = lists.iter().filter_map(|list| list.as_array()).flatten();
                operations.push(Operation {
                    document: self,
                    method: method.to_uppercase(),
                    path,
                    told,
                    parameters: parameters.map(|it| self.resolved(it)).collect(),
                });
            }
        }
        operations
    }

    /// What a reference leads to.
    pub fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(reference) = value["$ref"].as_str() else {
            return value;
        };
        let found = self
            .0
            .pointer(reference.strip_prefix('#').expect("it is our own"));
        found.unwrap_or_else(|| panic!("`{reference}` leads nowhere"))
    }

    /// What is wrong with a value by a schema, which says of each object all that is in it.
    pub fn complaints(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut components = self.0["components"].clone();
        let mut schema = schema.clone();
        close(&mut components["schemas"]);
        close(&mut schema);
        let whole = json!({ "allOf": [schema], "components": components });
        let options = jsonschema::options().should_validate_formats(true);
        let validator = options.build(&whole).expect("a schema");
        let errors = validator.iter_errors(value);
        errors
            .map(|error| format!("{error} at `{}`", error.instance_path()))
            .collect()
    }
}

/// Members that are not described are not expected.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            // What is one of several says no more than which.
            let inner = fields.iter_mut().filter(|(name, _)| *name != "oneOf");
            inner.for_each(|(_, value)| close(value));
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

impl Operation<'_> {
    /// `GET /v1/alarms/{id}`.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The scope that its token needs; none where it needs no token.
    pub fn scope(&self) -> Option<&str> {
        self.told["security"][0]["token"][0].as_str()
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[&Value] {
        &self.parameters
    }

    /// The type of its body, and the example.
    pub fn body(&self) -> Option<(&str, &Value)> {
        let content = self.told["requestBody"]["content"].as_object()?;
        let (kind, media) = content.iter().find(|(_, media)| media.get("example").is_some())?;
        Some((kind, &media["example"]))
    }

    /// The call that its examples make. A value that is empty leaves its parameter out.
    pub fn call(&self, values: &Values) -> Call {
        let mut path = self.path.to_owned();
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let mut headers = Vec::new();
        for parameter in &self.parameters {
            let name = parameter["name"].as_str().expect("a name");
            let value = values.get(name).cloned().or_else(|| text(&parameter["example"]));
            let Some(value) = value.filter(|value| !value.is_empty()) else {
                continue;
            };
            match parameter["in"].as_str().expect("a place") {
                "path" => path = path.replace(&format!("{{{name}}}"), &value),
                "query" => drop(query.append_pair(name, &value)),
                _ => headers.push((name.to_owned(), value)),
            }
        }
        let query = query.finish();
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        let body = self.body().map(|(kind, example)| {
            headers.push(("content-type".to_owned(), kind.to_owned()));
            written(kind, example, values)
        });
        Call {
            method: self.method.clone(),
            path,
            headers,
            body: body.unwrap_or_default(),
        }
    }

    /// How an answer differs from what is promised.
    pub fn complaints(&self, status: u16, content_type: Option<&str>, body: &str) -> Vec<String> {
        let responses = &self.told["responses"];
        let promised = responses.get(status.to_string());
        let promised = promised.unwrap_or(&responses["default"]);
        let Some(content) = self.document.resolved(promised)["content"].as_object() else {
            let empty = body.is_empty().then(Vec::new);
            return empty.unwrap_or_else(|| vec![format!("{status} has no body: {body}")]);
        };
        let essence = content_type
            .and_then(|it| it.split(';').next())
            .unwrap_or_default();
        let Some(media) = content.get(essence) else {
            return vec![format!("{status} is no `{essence}`: {body}")];
        };
        if !matches!(essence, "application/json" | "application/problem+json") {
            return Vec::new();
        }
        match serde_json::from_str(body) {
            Ok(value) => self.document.complaints(&media["schema"], &value),
            Err(error) => vec![format!("{error}: {body}")],
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A body, in which members of those names have other values, or are left out where these are empty.
fn written(kind: &str, example: &Value, values: &Values) -> String {
    if let Some(text) = example.as_str() {
        return text.to_owned();
    }
    let mut example = example.as_object().expect("a document").clone();
    for (name, value) in values {
        match example.get_mut(*name) {
            Some(_) if value.is_empty() => drop(example.remove(*name)),
            Some(member) => *member = value.as_str().into(),
            None => {}
        }
    }
    if kind == "application/json" {
        return Value::Object(example).to_string();
    }
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &example {
        form.append_pair(name, &text(value).unwrap_or_default());
    }
    form.finish()
}
