//! The schema of both stores, as far as it is in files: the migrations in the folder of each, which have the same names. They are
//! listed here rather than by `sqlx::migrate!`, whose crate would have both databases compiled once more, for itself.

use sqlx::SqlStr;
use sqlx::migrate::MigrateError;
use sqlx::migrate::Migration;
use sqlx::migrate::MigrationType;
use sqlx::migrate::Migrator;

use crate::store::StoreError;

/// Names and texts of the migrations in a folder.
macro_rules! migrations {
    ($folder:literal) => {
        migrations! { $folder:
            "0001_foundation"
            "0002_plan_again"
            "0003_cluster"
            "0004_limits"
            "0005_people"
            "0006_reports"
            "0007_webhook"
            "0008_mail"
            "0009_late"
            "0010_answer"
            "0011_alarms"
            "0012_digest"
            "0013_access"
            "0014_alarms_together"
            "0015_live"
            "0016_told_together"
            "0017_by_target"
            "0018_by_lead"
            "0019_epoch"
            "0020_secrets"
        }
    };
    ($folder:literal: $($name:literal)+) => {
        [$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $folder, "/", $name, ".sql")),
        )),+]
    };
}

/// The migrations of the SQLite store.
pub fn sqlite() -> Migrator {
    migrator(&migrations!("sqlite"))
}

/// The migrations of the PostgreSQL store.
pub fn postgres() -> Migrator {
    migrator(&migrations!("postgres"))
}

/// The schema version to which they lead.
pub fn version(migrations: &Migrator) -> i64 {
    let versions = migrations.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

/// Why they could not be carried out.
pub fn failure(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => StoreError::from(error),
        other => StoreError::Failed(other.to_string()),
    }
}

fn migrator(files: &[(&'static str, &'static str)]) -> Migrator {
    let migrations = files.iter().map(|(name, sql)| {
        let (version, description) = name.split_once('_').expect("a number and what it is about");
        Migration::new(
            version.parse().expect("a number"),
            description.replace('_', " ").into(),
            MigrationType::Simple,
            SqlStr::from_static(sql),
            sql.starts_with("-- no-transaction"),
        )
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        for (folder, migrations) in [("sqlite", sqlite()), ("postgres", postgres())] {
            let files = fs::read_dir(root.join(folder)).expect("the folder is there");
            let files = files.map(|file| file.expect("a file").file_name());
            let mut names: Vec<String> = files.map(|name| name.into_string().expect("a name")).collect();
            names.sort();
            let listed = migrations.iter().map(|migration| {
                let description = migration.description.replace(' ', "_");
                format!("{:04}_{description}.sql", migration.version)
            });
            assert_eq!(listed.collect::<Vec<_>>(), names);
            assert_eq!(version(&migrations), i64::try_from(names.len()).expect("few"));
        }
    }
}
