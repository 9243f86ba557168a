# German. What each message is for, and what it is given, stands in en.ftl.

## The message as a whole

subject = Erinnerung: { $title } – { $when }
headline = { $relative }: { $title }
moved = Verschoben: { $relative }
line = { $label }: { $value }
text-message = { $headline } - { $when }
text-message-where = { $text } - { $where }
private-event = Privater Termin
no-title = (Kein Titel)
late = Diese Erinnerung kommt verspätet: Sie war für { $moment } vorgesehen.
more = Die vollständige Beschreibung finden Sie in Ihrem Kalender.
why-event = Sie erhalten diese Nachricht, weil in Ihrem Kalender ein Alarm für diesen Termin gesetzt ist.
why-task = Sie erhalten diese Nachricht, weil in Ihrem Kalender ein Alarm für diese Aufgabe gesetzt ist.
reminder-id = Erinnerung { $id }

## Labels

label-when = Wann
label-due = Fällig
label-local-time = Ortszeit
label-where = Wo
label-link = Link
label-organizer = Organisator
label-answer = Ihre Antwort
label-status = Ihr Status

status =
    { $status ->
        [accepted] zugesagt
        [tentative] mit Vorbehalt
        [declined] abgesagt
        [needs-action] noch nicht beantwortet
        [delegated] delegiert
        [completed] erledigt
        [in-process] in Bearbeitung
       *[other] { $status }
    }

## How far from the moment of sending: always after "in" or "vor", so in the dative

days =
    { $count ->
        [one] { $count } Tag
       *[other] { $count } Tagen
    }
hours =
    { $count ->
        [one] { $count } Stunde
       *[other] { $count } Stunden
    }
minutes =
    { $count ->
        [one] { $count } Minute
       *[other] { $count } Minuten
    }
two-units = { $larger } und { $smaller }

starts-in = Beginnt in { $distance }
starts-now = Beginnt jetzt
started = Hat vor { $distance } begonnen
ended = Ist vor { $distance } zu Ende gegangen
ended-now = Ist gerade zu Ende gegangen

day-in = In { $distance }
day-tomorrow = Morgen
day-today = Heute
started-yesterday = Hat gestern begonnen
ended-yesterday = Ist gestern zu Ende gegangen

due-in = Fällig in { $distance }
due-now = Jetzt fällig
due-tomorrow = Morgen fällig
due-today = Heute fällig
was-due = War vor { $distance } fällig
was-due-yesterday = War gestern fällig

## Times

date = { weekday }, { $day }. { month } { $year }
date-short = { weekday-short }, { $day }. { month-short } { $year }
time = { $hh }:{ $minute }
moment = { $date }, { $time } Uhr
same-day = { $date }, { $start }–{ $end } Uhr
from-to = { $first } – { $last }
in-zone = { $when } ({ $zone })

weekday =
    { $weekday ->
        [mon] Montag
        [tue] Dienstag
        [wed] Mittwoch
        [thu] Donnerstag
        [fri] Freitag
        [sat] Samstag
       *[sun] Sonntag
    }
weekday-short =
    { $weekday ->
        [mon] Mo.
        [tue] Di.
        [wed] Mi.
        [thu] Do.
        [fri] Fr.
        [sat] Sa.
       *[sun] So.
    }
month =
    { $month ->
        [1] Januar
        [2] Februar
        [3] März
        [4] April
        [5] Mai
        [6] Juni
        [7] Juli
        [8] August
        [9] September
        [10] Oktober
        [11] November
       *[12] Dezember
    }
month-short =
    { $month ->
        [1] Jan.
        [2] Feb.
        [3] März
        [4] Apr.
        [5] Mai
        [6] Juni
        [7] Juli
        [8] Aug.
        [9] Sept.
        [10] Okt.
        [11] Nov.
       *[12] Dez.
    }

## Answers from the message

answer-intro = Auf diese Erinnerung antworten:
answer-acknowledge = Erledigt
answer-snooze-10m = In 10 Minuten erneut erinnern
answer-snooze-1h = In 1 Stunde erneut erinnern
answer-snooze-until-start = Zum Beginn erneut erinnern
answer-mute = Alle Erinnerungen an diesen Termin ausschalten
answer-unmute = Erinnerungen an diesen Termin wieder einschalten
answer-title = Auf eine Erinnerung antworten
answered-acknowledge = Die Erinnerung ist als erledigt vermerkt.
answered-snooze = Sie werden erneut erinnert: { $moment }
answered-mute = Alle Erinnerungen an diesen Termin sind ausgeschaltet.
answered-unmute = Die Erinnerungen an diesen Termin sind wieder eingeschaltet.
answer-next = Nächste Erinnerung: { $moment }
answer-no-next = Es ist keine weitere Erinnerung an diesen Termin vorgesehen.
answer-started = Der Termin hat bereits begonnen, es gibt also nichts mehr abzuwarten.
answer-gone = Dieser Link ist nicht mehr gültig. Der Termin wurde vielleicht gelöscht oder liegt lange zurück.

## Mehrere Erinnerungen in einer Nachricht

reminders =
    { $count ->
        [one] { $count } Erinnerung
       *[other] { $count } Erinnerungen
    }
digest-subject = { $reminders }, zuerst: { $title }
digest-headline = { $reminders } in einer Nachricht
digest-more =
    { $count ->
        [one] Und { $count } weitere, die Sie in Ihrem Kalender finden.
       *[other] Und { $count } weitere, die Sie in Ihrem Kalender finden.
    }
why-digest = Sie erhalten diese Nachricht, weil in Ihrem Kalender Alarme für diese Termine gesetzt sind.
text-message-digest = { $reminders }. Zuerst: { $text }
