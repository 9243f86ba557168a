# English. The language of whatever another language does not say, so this file has every message.
# Dates as most of the world writes them in English; en-US.ftl has what differs there.

## The message as a whole

# $title  what the event is called, or `no-title`
# $when   one of the patterns of times below, with the short date
subject = Reminder: { $title } - { $when }
# The first line of the text. $relative is one of the distances below.
headline = { $relative }: { $title }
# Stands for $relative where the event was moved past its alarms, so that the message comes at once.
moved = Moved: { $relative }
# Each fact in the text. $label is one of the labels below.
line = { $label }: { $value }
# A text message: $headline as above, where the title gives way if there is no room. An ordinary hyphen, since one dash takes
# the room of ninety characters.
text-message = { $headline } - { $when }
# $text is `text-message`. Left out where there is no room.
text-message-where = { $text } - { $where }
# What a text message says instead of the title of a private event.
private-event = Private event
no-title = (no title)
late = This reminder is late: it was due on { $moment }.
more = The description goes on in your calendar.
why-event = You get this because your calendar has an alarm for this event.
why-task = You get this because your calendar has an alarm for this task.
reminder-id = Reminder { $id }

## Labels

label-when = When
label-due = Due
# The same time in the event's own zone, where that differs.
label-local-time = Local time
label-where = Where
label-link = Link
label-organizer = Organizer
label-answer = Your answer
label-status = Your status

# What the calendar says about the recipient's part in it (PARTSTAT, RFC 5545 section 3.2.12).
status =
    { $status ->
        [accepted] accepted
        [tentative] tentative
        [declined] declined
        [needs-action] not answered yet
        [delegated] delegated
        [completed] completed
        [in-process] in process
       *[other] { $status }
    }

## How far from the moment of sending

days =
    { $count ->
        [one] { $count } day
       *[other] { $count } days
    }
hours =
    { $count ->
        [one] { $count } hour
       *[other] { $count } hours
    }
minutes =
    { $count ->
        [one] { $count } minute
       *[other] { $count } minutes
    }
# 1 hour 30 minutes. $distance below is one of these four.
two-units = { $larger } { $smaller }

# An event at a time of day.
starts-in = Starts in { $distance }
starts-now = Starts now
started = Started { $distance } ago
ended = Ended { $distance } ago
ended-now = Ended just now

# An event of whole days; `started` and `ended` above with days.
day-in = In { $distance }
day-tomorrow = Tomorrow
day-today = Today
started-yesterday = Started yesterday
ended-yesterday = Ended yesterday

# A task.
due-in = Due in { $distance }
due-now = Due now
due-tomorrow = Due tomorrow
due-today = Due today
was-due = Was due { $distance } ago
was-due-yesterday = Was due yesterday

## Times

# $weekday  mon, tue, wed, thu, fri, sat, sun
# $day      1 to 31
# $month    1 to 12
# $year     2026
date = { weekday }, { $day } { month } { $year }
date-short = { weekday-short } { $day } { month-short } { $year }

# $hour    0 to 23        $hour12  12, 1 to 11
# $hh      00 to 23       $half    am, pm
# $minute  00 to 59
time = { $hh }:{ $minute }

# $date in the following is `date`, or `date-short` in the subject; $time, $start and $end are `time`.
moment = { $date }, { $time }
same-day = { $date }, { $start }-{ $end }
# $first and $last are each a `moment`, or a date where whole days are meant.
from-to = { $first } - { $last }
# $when is one of the above, $zone `Europe/Berlin, UTC+1`.
in-zone = { $when } ({ $zone })

weekday =
    { $weekday ->
        [mon] Monday
        [tue] Tuesday
        [wed] Wednesday
        [thu] Thursday
        [fri] Friday
        [sat] Saturday
       *[sun] Sunday
    }
weekday-short =
    { $weekday ->
        [mon] Mon
        [tue] Tue
        [wed] Wed
        [thu] Thu
        [fri] Fri
        [sat] Sat
       *[sun] Sun
    }
month =
    { $month ->
        [1] January
        [2] February
        [3] March
        [4] April
        [5] May
        [6] June
        [7] July
        [8] August
        [9] September
        [10] October
        [11] November
       *[12] December
    }
month-short =
    { $month ->
        [1] Jan
        [2] Feb
        [3] Mar
        [4] Apr
        [5] May
        [6] Jun
        [7] Jul
        [8] Aug
        [9] Sep
        [10] Oct
        [11] Nov
       *[12] Dec
    }

## Answers from the message

# Introduces the links in a mail; each offers one of the six acts below, as do the buttons of the page.
answer-intro = Answer this reminder:
answer-acknowledge = Done
answer-snooze-10m = Remind me again in 10 minutes
answer-snooze-1h = Remind me again in 1 hour
answer-snooze-until-start = Remind me again when it starts
answer-mute = Turn off all reminders of this event
answer-unmute = Turn reminders of this event on again
# The page behind the links: its title, and what it says. $moment is one of the times above.
answer-title = Answer a reminder
answered-acknowledge = The reminder is marked as done.
answered-snooze = You will be reminded again: { $moment }
answered-mute = All reminders of this event are off.
answered-unmute = Reminders of this event are on again.
answer-next = Next reminder: { $moment }
answer-no-next = No further reminder of this event is planned.
answer-started = It has already started, so there is nothing to wait for.
answer-gone = This link is no longer valid. What it was about may have been deleted or be over for long.

## Several reminders in one message

# $count, always of several.
reminders =
    { $count ->
        [one] { $count } reminder
       *[other] { $count } reminders
    }
# $reminders  as above
# $title      what the first event is called, or `no-title`
digest-subject = { $reminders }, first: { $title }
digest-headline = { $reminders } in one message
# What is not listed any more.
digest-more =
    { $count ->
        [one] And { $count } more, which your calendar shows.
       *[other] And { $count } more, which your calendar shows.
    }
why-digest = You get this because your calendar has alarms for these events.
# $text is the text message of the first of them.
text-message-digest = { $reminders }. First: { $text }
