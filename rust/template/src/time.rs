//! The function `strftime_now` with a fixed time.

use std::fmt::Write;

use minijinja::Error;

use crate::error::failed;

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_OF_DAY: i64 = 86_400;

struct Time {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    day_of_year: i64,
    second_of_day: i64,
}

/// Splits seconds since 1970 in UTC by the proleptic Gregorian calendar.
fn time_of(unix: i64) -> Time {
    let days = unix.div_euclid(SECONDS_OF_DAY);
    let weekday = usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0);
    let mut year = 1970 + days.div_euclid(366);
    while first_day_of(year + 1) <= days {
        year += 1;
    }
    let mut rest = days - first_day_of(year);
    let day_of_year = rest + 1;
    let mut month = 0;
    while rest >= days_of_month(year, month) {
        rest -= days_of_month(year, month);
        month += 1;
    }
    let second_of_day = unix.rem_euclid(SECONDS_OF_DAY);
    Time { year, month, day: rest + 1, weekday, day_of_year, second_of_day }
}

/// Days from 1970-01-01 to the first day of a year.
fn first_day_of(year: i64) -> i64 {
    let past = year - 1;
    365 * (year - 1970) + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 477
}

fn days_of_month(year: i64, month: usize) -> i64 {
    match month {
        1 => first_day_of(year + 1) - first_day_of(year) - 337,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// The time in the format of `datetime.strftime`; directives that depend on the platform are
/// errors.
pub(crate) fn strftime(unix: i64, format: &str) -> Result<String, Error> {
    let time = time_of(unix);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let directive = chars.next();
        let is_bare = directive == Some('-');
        let directive = if is_bare { chars.next() } else { directive };
        let directive = directive.unwrap_or_default();
        write_directive(&mut out, &time, directive, is_bare)?;
    }
    Ok(out)
}

fn write_directive(out: &mut String, time: &Time, name: char, is_bare: bool) -> Result<(), Error> {
    let hour = time.second_of_day / 3600;
    let (number, width) = match name {
        'd' => (time.day, 2),
        'm' => (i64::try_from(time.month + 1).unwrap_or(1), 2),
        'H' => (hour, 2),
        'I' => ((hour + 11) % 12 + 1, 2),
        'M' => (time.second_of_day / 60 % 60, 2),
        'S' => (time.second_of_day % 60, 2),
        'j' => (time.day_of_year, 3),
        'y' => (time.year.rem_euclid(100), 2),
        _ if is_bare => return unsupported(name),
        'Y' => (time.year, 1),
        _ => return write_name(out, time, name),
    };
    let width = if is_bare { 1 } else { width };
    Ok(write!(out, "{number:0width$}")?)
}

fn write_name(out: &mut String, time: &Time, name: char) -> Result<(), Error> {
    let (day, month) = (DAYS[time.weekday], MONTHS[time.month]);
    match name {
        'A' => out.push_str(day),
        'a' => out.push_str(&day[..3]),
        'B' => out.push_str(month),
        'b' | 'h' => out.push_str(&month[..3]),
        'p' => out.push_str(if time.second_of_day < SECONDS_OF_DAY / 2 { "AM" } else { "PM" }),
        'F' => out.push_str(&strftime_of(time, "Ymd", '-')?),
        'T' => out.push_str(&strftime_of(time, "HMS", ':')?),
        '%' => out.push('%'),
        _ => return unsupported(name),
    }
    Ok(())
}

fn strftime_of(time: &Time, names: &str, separator: char) -> Result<String, Error> {
    let mut out = String::new();
    for (place, name) in names.chars().enumerate() {
        if place > 0 {
            out.push(separator);
        }
        write_directive(&mut out, time, name, false)?;
    }
    Ok(out)
}

fn unsupported<T>(name: char) -> Result<T, Error> {
    Err(failed(format!("strftime_now does not support %{name}")))
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn times_are_printed_as_python_prints_them() {
        // datetime.fromtimestamp(number, timezone.utc).strftime("%Y-%m-%d %H:%M:%S %a %j")
        for (unix, expected) in [
            (0, "1970-01-01 00:00:00 Thu 001"),
            (-1, "1969-12-31 23:59:59 Wed 365"),
            (951_827_696, "2000-02-29 12:34:56 Tue 060"),
            (1_735_689_599, "2024-12-31 23:59:59 Tue 366"),
            (4_102_444_800, "2100-01-01 00:00:00 Fri 001"),
        ] {
            assert_eq!(strftime(unix, "%Y-%m-%d %H:%M:%S %a %j").unwrap(), expected);
        }
        assert_eq!(
            strftime(951_827_696, "%-d %B %y, %I %p %%").unwrap(),
            "29 February 00, 12 PM %"
        );
        assert!(strftime(0, "%Z").is_err());
    }
}
