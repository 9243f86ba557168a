# Spanish. What each message is for, and what it is given, stands in en.ftl.

## The message as a whole

subject = Recordatorio: { $title } – { $when }
headline = { $relative }: { $title }
moved = Cambio de hora: { $relative }
line = { $label }: { $value }
text-message = { $headline } - { $when }
text-message-where = { $text } - { $where }
private-event = Evento privado
no-title = (Sin título)
late = Este recordatorio llega con retraso: estaba previsto para el { $moment }.
more = La descripción completa está en su calendario.
why-event = Recibe este mensaje porque su calendario tiene una alarma para este evento.
why-task = Recibe este mensaje porque su calendario tiene una alarma para esta tarea.
reminder-id = Recordatorio { $id }

## Labels

label-when = Cuándo
label-due = Vencimiento
label-local-time = Hora local
label-where = Dónde
label-link = Enlace
label-organizer = Organizador
label-answer = Su respuesta
label-status = Estado

status =
    { $status ->
        [accepted] aceptado
        [tentative] provisional
        [declined] rechazado
        [needs-action] sin responder
        [delegated] delegado
        [completed] completado
        [in-process] en curso
       *[other] { $status }
    }

## How far from the moment of sending

days =
    { $count ->
        [one] { $count } día
       *[other] { $count } días
    }
hours =
    { $count ->
        [one] { $count } hora
       *[other] { $count } horas
    }
minutes =
    { $count ->
        [one] { $count } minuto
       *[other] { $count } minutos
    }
two-units = { $larger } y { $smaller }

starts-in = Empieza dentro de { $distance }
starts-now = Empieza ahora
started = Empezó hace { $distance }
ended = Terminó hace { $distance }
ended-now = Acaba de terminar

day-in = Dentro de { $distance }
day-tomorrow = Mañana
day-today = Hoy
started-yesterday = Empezó ayer
ended-yesterday = Terminó ayer

due-in = Vence dentro de { $distance }
due-now = Vence ahora
due-tomorrow = Vence mañana
due-today = Vence hoy
was-due = Venció hace { $distance }
was-due-yesterday = Venció ayer

## Times

date = { weekday }, { $day } de { month } de { $year }
date-short = { weekday-short }, { $day } { month-short } { $year }
time = { $hour }:{ $minute }
moment = { $date }, { $time }
same-day = { $date }, { $start }–{ $end }
from-to = { $first } – { $last }
in-zone = { $when } ({ $zone })

weekday =
    { $weekday ->
        [mon] lunes
        [tue] martes
        [wed] miércoles
        [thu] jueves
        [fri] viernes
        [sat] sábado
       *[sun] domingo
    }
weekday-short =
    { $weekday ->
        [mon] lun
        [tue] mar
        [wed] mié
        [thu] jue
        [fri] vie
        [sat] sáb
       *[sun] dom
    }
month =
    { $month ->
        [1] enero
        [2] febrero
        [3] marzo
        [4] abril
        [5] mayo
        [6] junio
        [7] julio
        [8] agosto
        [9] septiembre
        [10] octubre
        [11] noviembre
       *[12] diciembre
    }
month-short =
    { $month ->
        [1] ene
        [2] feb
        [3] mar
        [4] abr
        [5] may
        [6] jun
        [7] jul
        [8] ago
        [9] sept
        [10] oct
        [11] nov
       *[12] dic
    }

## Answers from the message

answer-intro = Responda a este recordatorio:
answer-acknowledge = Hecho
answer-snooze-10m = Recordármelo de nuevo en 10 minutos
answer-snooze-1h = Recordármelo de nuevo en 1 hora
answer-snooze-until-start = Recordármelo de nuevo cuando empiece
answer-mute = Desactivar todos los recordatorios de este evento
answer-unmute = Volver a activar los recordatorios de este evento
answer-title = Responder a un recordatorio
answered-acknowledge = El recordatorio está marcado como hecho.
answered-snooze = Se le recordará de nuevo: { $moment }
answered-mute = Todos los recordatorios de este evento están desactivados.
answered-unmute = Los recordatorios de este evento vuelven a estar activados.
answer-next = Próximo recordatorio: { $moment }
answer-no-next = No hay más recordatorios previstos para este evento.
answer-started = Ya ha empezado, así que no hay nada que esperar.
answer-gone = Este enlace ya no es válido. Es posible que el evento se haya eliminado o haya terminado hace tiempo.

## Varios recordatorios en un mensaje

reminders =
    { $count ->
        [one] { $count } recordatorio
       *[other] { $count } recordatorios
    }
digest-subject = { $reminders }, el primero: { $title }
digest-headline = { $reminders } en un mensaje
digest-more =
    { $count ->
        [one] Y { $count } más, que encontrará en su calendario.
       *[other] Y { $count } más, que encontrará en su calendario.
    }
why-digest = Recibe este mensaje porque su calendario tiene alarmas para estos eventos.
text-message-digest = { $reminders }. El primero: { $text }
