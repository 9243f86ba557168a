//! What went wrong elsewhere, by the id of its report.

use super::*;

const BERLIN: &str = "Europe/Berlin";
