//! What is wrong with a configuration, said so that it can be put right without looking anything up.

use std::fmt;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The embedded defaults.
    Default,
    /// The operator's file.
    File(String),
    /// An environment variable.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "in {path}"),
            Self::Environment(variable) => write!(f, "from {variable}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The key, as a path with dots; empty where the whole file is meant.
    pub key: String,
    /// What may be shown of its value.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: Origin,
    /// What is wrong and how to put it right, in one line.
    pub problem: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = `{value}`")?;
        }
        let gap = if self.key.is_empty() { "" } else { " " };
        write!(f, "{gap}({}): {}", self.origin, self.problem)
    }
}

/// Everything that is wrong, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaints(pub Vec<Complaint>);

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, complaint) in self.0.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{complaint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaints {}
