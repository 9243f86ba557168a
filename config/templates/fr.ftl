# French. What each message is for, and what it is given, stands in en.ftl.
# {"\u00A0"} is a space that is never broken, as it stands before a colon.

## The message as a whole

subject = Rappel{"\u00A0"}: { $title } – { $when }
headline = { $relative }{"\u00A0"}: { $title }
moved = Déplacé{"\u00A0"}: { $relative }
line = { $label }{"\u00A0"}: { $value }
text-message = { $headline } - { $when }
text-message-where = { $text } - { $where }
private-event = Événement privé
no-title = (Sans titre)
late = Ce rappel arrive en retard{"\u00A0"}: il était prévu pour le { $moment }.
more = La description complète se trouve dans votre calendrier.
why-event = Vous recevez ce message parce qu’une alarme est définie pour cet événement dans votre calendrier.
why-task = Vous recevez ce message parce qu’une alarme est définie pour cette tâche dans votre calendrier.
reminder-id = Rappel { $id }

## Labels

label-when = Quand
label-due = Échéance
label-local-time = Heure locale
label-where = Lieu
label-link = Lien
label-organizer = Organisateur
label-answer = Votre réponse
label-status = Statut

status =
    { $status ->
        [accepted] accepté
        [tentative] provisoire
        [declined] refusé
        [needs-action] en attente
        [delegated] délégué
        [completed] terminé
        [in-process] en cours
       *[other] { $status }
    }

## How far from the moment of sending

days =
    { $count ->
        [one] { $count } jour
       *[other] { $count } jours
    }
hours =
    { $count ->
        [one] { $count } heure
       *[other] { $count } heures
    }
minutes =
    { $count ->
        [one] { $count } minute
       *[other] { $count } minutes
    }
two-units = { $larger } et { $smaller }

starts-in = Commence dans { $distance }
starts-now = Commence maintenant
started = A commencé il y a { $distance }
ended = S’est terminé il y a { $distance }
ended-now = Vient de se terminer

day-in = Dans { $distance }
day-tomorrow = Demain
day-today = Aujourd’hui
started-yesterday = A commencé hier
ended-yesterday = S’est terminé hier

due-in = Échéance dans { $distance }
due-now = Arrive à échéance maintenant
due-tomorrow = Échéance demain
due-today = Échéance aujourd’hui
was-due = Échéance dépassée depuis { $distance }
was-due-yesterday = Échéance dépassée depuis hier

## Times

date = { weekday } { day } { month } { $year }
date-short = { weekday-short } { day } { month-short } { $year }
time = { $hh }:{ $minute }
moment = { $date } à { $time }
same-day = { $date } de { $start } à { $end }
from-to = du { $first } au { $last }
in-zone = { $when } ({ $zone })

day =
    { $day ->
        [1] 1er
       *[other] { $day }
    }
weekday =
    { $weekday ->
        [mon] lundi
        [tue] mardi
        [wed] mercredi
        [thu] jeudi
        [fri] vendredi
        [sat] samedi
       *[sun] dimanche
    }
weekday-short =
    { $weekday ->
        [mon] lun.
        [tue] mar.
        [wed] mer.
        [thu] jeu.
        [fri] ven.
        [sat] sam.
       *[sun] dim.
    }
month =
    { $month ->
        [1] janvier
        [2] février
        [3] mars
        [4] avril
        [5] mai
        [6] juin
        [7] juillet
        [8] août
        [9] septembre
        [10] octobre
        [11] novembre
       *[12] décembre
    }
month-short =
    { $month ->
        [1] janv.
        [2] févr.
        [3] mars
        [4] avr.
        [5] mai
        [6] juin
        [7] juil.
        [8] août
        [9] sept.
        [10] oct.
        [11] nov.
       *[12] déc.
    }

## Answers from the message

answer-intro = Répondre à ce rappel{"\u00A0"}:
answer-acknowledge = Terminé
answer-snooze-10m = Me le rappeler dans 10 minutes
answer-snooze-1h = Me le rappeler dans 1 heure
answer-snooze-until-start = Me le rappeler au début
answer-mute = Désactiver tous les rappels de cet événement
answer-unmute = Réactiver les rappels de cet événement
answer-title = Répondre à un rappel
answered-acknowledge = Le rappel est marqué comme terminé.
answered-snooze = Vous recevrez un nouveau rappel{"\u00A0"}: { $moment }
answered-mute = Tous les rappels de cet événement sont désactivés.
answered-unmute = Les rappels de cet événement sont de nouveau actifs.
answer-next = Prochain rappel{"\u00A0"}: { $moment }
answer-no-next = Aucun autre rappel n’est prévu pour cet événement.
answer-started = L’événement a déjà commencé{"\u00A0"}: il n’y a plus rien à attendre.
answer-gone = Ce lien n’est plus valable. L’événement a peut-être été supprimé, ou il est passé depuis longtemps.

## Plusieurs rappels en un seul message

reminders =
    { $count ->
        [one] { $count } rappel
       *[other] { $count } rappels
    }
digest-subject = { $reminders }, le premier{"\u00A0"}: { $title }
digest-headline = { $reminders } en un seul message
digest-more =
    { $count ->
        [one] Et { $count } autre, à retrouver dans votre calendrier.
       *[other] Et { $count } autres, à retrouver dans votre calendrier.
    }
why-digest = Vous recevez ce message parce que des alarmes sont définies pour ces événements dans votre calendrier.
text-message-digest = { $reminders }. Le premier: { $text }
