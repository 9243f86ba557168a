//! How a provider reports what became of a message: where in its call the status is, and which statuses are an end.

use std::sync::Arc;

use crate::channel::receipt::Reader;
use crate::channel::receipt::Receipt;
use crate::channel::receipt::Slip;
use crate::channel::receipt::Status;

/// Fields that a report may have.
const FIELDS: usize = 100;

/// Characters of an error code that are kept.
const CODE: usize = 64;

/// How the reports of one provider are read. Names are those of a field of the query or the form, or of a member of the
/// JSON object; one that begins with `/` is a JSON pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptRules {
    /// Where the status is.
    pub status: String,
    /// Statuses that say that the recipient has it.
    pub delivered: Vec<String>,
    /// Statuses that say that they will not get it. All others say that it is on its way.
    pub undelivered: Vec<String>,
    /// Where an error code is; empty: nowhere.
    pub code: String,
}

/// A reader that goes by these rules.
pub fn reader(rules: ReceiptRules) -> Reader {
    Arc::new(move |slip| rules.read(slip))
}

impl ReceiptRules {
    fn read(&self, slip: &Slip<'_>) -> Result<Receipt, String> {
        let fields = Fields::of(slip);
        let said = fields.get(&self.status).ok_or_else(|| {
            format!(
                "a report has the status in `{}`, and this one has none",
                self.status
            )
        })?;
        let among = |statuses: &[String]| statuses.iter().any(|it| it.eq_ignore_ascii_case(&said));
        let status = if among(&self.delivered) {
            Status::Delivered
        } else if among(&self.undelivered) {
            Status::Undelivered
        } else {
            Status::Pending
        };
        let code = Some(self.code.as_str()).filter(|name| !name.is_empty());
        let code = code.and_then(|name| fields.get(name)).and_then(harmless);
        let said = harmless(said).unwrap_or_else(|| "a status".to_owned());
        let detail = match code.filter(|code| code != "0") {
            Some(code) => format!("the provider reported {said}, code {code}"),
            None => format!("the provider reported {said}"),
        };
        Ok(Receipt { status, detail })
    }
}

/// What a report says, wherever it says it.
struct Fields {
    named: Vec<(String, String)>,
    json: Option<serde_json::Value>,
}

impl Fields {
    fn of(slip: &Slip<'_>) -> Self {
        let mut named = decoded(slip.query);
        let mut json = None;
        if slip.content_type.starts_with("application/x-www-form-urlencoded") {
            named.extend(decoded(&String::from_utf8_lossy(slip.body)));
        } else {
            json = serde_json::from_slice(slip.body).ok();
        }
        Self { named, json }
    }

    fn get(&self, name: &str) -> Option<String> {
        let field = self.named.iter().find(|(field, _)| field == name);
        let in_json = || {
            let pointer = if name.starts_with('/') {
                name.to_owned()
            } else {
                format!("/{name}")
            };
            match self.json.as_ref()?.pointer(&pointer)? {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Number(number) => Some(number.to_string()),
                _ => None,
            }
        };
        field.map(|(_, value)| value.clone()).or_else(in_json)
    }
}

fn decoded(query: &str) -> Vec<(String, String)> {
    let mut url = reqwest::Url::parse("form:").expect("a scheme is enough");
    url.set_query(Some(query));
    url.query_pairs().into_owned().take(FIELDS).collect()
}

/// A name or a number, which says nothing of a person.
fn harmless(text: String) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_number_of_somebody = text.len() > 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    (!text.is_empty() && text.len() <= CODE && text.chars().all(allowed) && !is_number_of_somebody)
        .then_some(text)
}
