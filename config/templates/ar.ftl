# Arabic, with European digits, which all its readers know. What each message is for, and what it is given, stands in
# en.ftl.

## The message as a whole

subject = تذكير: { $title } - { $when }
headline = { $relative }: { $title }
moved = تغيّر الموعد: { $relative }
line = { $label }: { $value }
text-message = { $headline } - { $when }
text-message-where = { $text } - { $where }
private-event = حدث خاص
no-title = (بدون عنوان)
late = وصل هذا التذكير متأخرًا: كان موعده { $moment }.
more = للاطلاع على بقية الوصف، يُرجى الرجوع إلى تقويمك.
why-event = تصلك هذه الرسالة لأن تقويمك يتضمن تنبيهًا لهذا الحدث.
why-task = تصلك هذه الرسالة لأن تقويمك يتضمن تنبيهًا لهذه المهمة.
reminder-id = رقم التذكير: { $id }

## Labels

label-when = الموعد
label-due = الاستحقاق
label-local-time = التوقيت المحلي
label-where = المكان
label-link = الرابط
label-organizer = المنظِّم
label-answer = ردك
label-status = الحالة

status =
    { $status ->
        [accepted] مقبول
        [tentative] مبدئي
        [declined] مرفوض
        [needs-action] لم يتم الرد بعد
        [delegated] تم التفويض
        [completed] مكتملة
        [in-process] قيد التنفيذ
       *[other] { $status }
    }

## How far from the moment of sending: always after "بعد" or "قبل", so in the genitive

days =
    { $count ->
        [one] يوم واحد
        [two] يومين
        [few] { $count } أيام
        [many] { $count } يومًا
       *[other] { $count } يوم
    }
hours =
    { $count ->
        [one] ساعة واحدة
        [two] ساعتين
        [few] { $count } ساعات
        [many] { $count } ساعة
       *[other] { $count } ساعة
    }
minutes =
    { $count ->
        [one] دقيقة واحدة
        [two] دقيقتين
        [few] { $count } دقائق
        [many] { $count } دقيقة
       *[other] { $count } دقيقة
    }
two-units = { $larger } و{ $smaller }

starts-in = يبدأ بعد { $distance }
starts-now = يبدأ الآن
started = بدأ قبل { $distance }
ended = انتهى قبل { $distance }
ended-now = انتهى للتو

day-in = بعد { $distance }
day-tomorrow = غدًا
day-today = اليوم
started-yesterday = بدأ أمس
ended-yesterday = انتهى أمس

due-in = موعد الاستحقاق بعد { $distance }
due-now = حان موعد الاستحقاق
due-tomorrow = موعد الاستحقاق غدًا
due-today = موعد الاستحقاق اليوم
was-due = انقضى موعد الاستحقاق قبل { $distance }
was-due-yesterday = انقضى موعد الاستحقاق أمس

## Times

date = { weekday }، { $day } { month } { $year }
# The names are never shortened.
date-short = { date }
time = { $hour12 }:{ $minute } { half }
moment = { $date }، { $time }
same-day = { $date }، من { $start } إلى { $end }
from-to = من { $first } إلى { $last }
in-zone = { $when } ({ $zone })

half =
    { $half ->
        [am] ص
       *[pm] م
    }
weekday =
    { $weekday ->
        [mon] الاثنين
        [tue] الثلاثاء
        [wed] الأربعاء
        [thu] الخميس
        [fri] الجمعة
        [sat] السبت
       *[sun] الأحد
    }
month =
    { $month ->
        [1] يناير
        [2] فبراير
        [3] مارس
        [4] أبريل
        [5] مايو
        [6] يونيو
        [7] يوليو
        [8] أغسطس
        [9] سبتمبر
        [10] أكتوبر
        [11] نوفمبر
       *[12] ديسمبر
    }

## Answers from the message

answer-intro = الرد على هذا التذكير:
answer-acknowledge = تم
answer-snooze-10m = ذكِّرني مجددًا بعد 10 دقائق
answer-snooze-1h = ذكِّرني مجددًا بعد ساعة
answer-snooze-until-start = ذكِّرني مجددًا عند البدء
answer-mute = إيقاف جميع التذكيرات بهذا الحدث
answer-unmute = إعادة تشغيل التذكيرات بهذا الحدث
answer-title = الرد على تذكير
answered-acknowledge = سُجِّل هذا التذكير على أنه منجَز.
answered-snooze = سيصلك تذكير مجددًا: { $moment }
answered-mute = أُوقفت جميع التذكيرات بهذا الحدث.
answered-unmute = أُعيد تشغيل التذكيرات بهذا الحدث.
answer-next = التذكير التالي: { $moment }
answer-no-next = لا يوجد تذكير آخر بهذا الحدث.
answer-started = لقد بدأ الحدث بالفعل، فلا شيء يُنتظر.
answer-gone = لم يعد هذا الرابط صالحًا. ربما حُذف الحدث أو انتهى منذ وقت طويل.

## عدة تذكيرات في رسالة واحدة

reminders =
    { $count ->
        [one] تذكير واحد
        [two] تذكيران
        [few] { $count } تذكيرات
        [many] { $count } تذكيرًا
       *[other] { $count } تذكير
    }
digest-subject = { $reminders }، أولها: { $title }
digest-headline = { $reminders } في رسالة واحدة
digest-more =
    { $count ->
        [one] وتذكير آخر تجده في تقويمك.
        [two] وتذكيران آخران تجدهما في تقويمك.
        [few] و{ $count } تذكيرات أخرى تجدها في تقويمك.
        [many] و{ $count } تذكيرًا آخر تجدها في تقويمك.
       *[other] و{ $count } تذكير آخر تجدها في تقويمك.
    }
why-digest = تصلك هذه الرسالة لأن تقويمك يتضمن تنبيهات لهذه الأحداث.
text-message-digest = { $reminders }. أولها: { $text }
