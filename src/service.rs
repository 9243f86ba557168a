//! The assembled node: the only place where everything is wired.

use crate::config::Complaints;
use crate::config::Settings;

/// Runs a node with `settings` until it is told to end; `reload` reads the configuration again.
pub fn serve(
    _settings: Settings,
    _reload: impl Fn() -> Result<Settings, Complaints> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    todo!()
}
