//! Alarms: the VALARM components of an event (RFC 5545 section 3.6.6, RFC 9074).
